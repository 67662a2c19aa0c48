"""Broker contract notes as data, without layout: one trade with price, fees, taxes and settlement.

All amounts add up. `to_facts` gives the ground truth.
"""

import functools
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from mailsim.samples.check_digits import draw_iban
from mailsim.samples.document_numbers import make_contract_note_number
from mailsim.samples.firms import Firm, Security, choose_broker_layout, choose_security, get_broker
from mailsim.samples.localized_formats import round_to_cents
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.seeded_random import SeededRandom


@dataclass(frozen=True, slots=True)
class TradeCharge:
    """A fee or tax.

    `name` is a key of the document terms, such as commission or stamp_duty.
    """

    name: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class ContractNote:
    """A contract note for one trade.

    `gross` is in the security's currency. `rate` converts it to `value`, which is in `currency`,
    like the charges and `net`.
    """

    layout: str
    language: str
    broker: Firm
    number: str
    order_number: str
    account: str
    client: str
    cash_account: str
    direction: str
    security: Security
    quantity: Decimal
    price: Decimal
    gross: Decimal
    rate: Decimal
    value: Decimal
    currency: str
    fees: tuple[TradeCharge, ...]
    taxes: tuple[TradeCharge, ...]
    net: Decimal
    traded: date
    time: str
    settled: date
    venue: str


_CLIENTS = {"de": "Erika Mustermann", "en": "Jane Sample", "fr": "Camille Exemple"}
_VENUES = ("Börse Nordhafen", "Lantern Exchange", "Bourse des Tilleuls", "Off-exchange", "Kontor MTF")
_HOME = {"DE": "EUR", "FR": "EUR", "GB": "GBP", "CH": "CHF"}
# Hundredths of a unit of the home currency for one unit of the traded currency.
_WORTH = {("USD", "EUR"): 92, ("GBP", "EUR"): 117, ("USD", "GBP"): 79, ("EUR", "GBP"): 85, ("EUR", "CHF"): 95,
          ("USD", "CHF"): 88, ("GBP", "CHF"): 112}  # fmt: skip


@functools.lru_cache(maxsize=256)
def make_contract_note(spec: MessageSpec) -> ContractNote:
    rng = SeededRandom(spec.seed, 31)
    layout = choose_broker_layout(spec.variant, spec.seed)
    broker = get_broker(layout)
    security = choose_security(rng)
    traded = _move_to_weekday(spec.date.date() - timedelta(days=rng.below(2)))
    direction = rng.pick(("buy", "buy", "sell"))
    price = Decimal(rng.between(security.low * 1000, security.high * 1000)).scaleb(-3)
    quantity = _draw_quantity(rng, price)
    gross = round_to_cents(quantity * price)
    currency = _HOME[broker.country]
    rate = Decimal(1)
    if security.currency != currency:
        rate = Decimal(_WORTH[security.currency, currency] * 100 + rng.between(-250, 250)).scaleb(-4)
    value = round_to_cents(gross * rate)
    fees = _draw_fees(rng, value)
    taxes = _compute_taxes(rng, direction, broker.country, security, value)
    charges = sum((charge.amount for charge in (*fees, *taxes)), Decimal(0))
    return ContractNote(
        layout=layout,
        language=spec.language,
        broker=broker,
        number=make_contract_note_number(spec.seed),
        order_number=rng.digits(8),
        account=rng.digits(10),
        client=(spec.to or spec.cc or spec.bcc)[0][0] or _CLIENTS[spec.language],
        cash_account=draw_iban(broker.country, rng),
        direction=direction,
        security=security,
        quantity=quantity,
        price=price,
        gross=gross,
        rate=rate,
        value=value,
        currency=currency,
        fees=fees,
        taxes=taxes,
        net=value + charges if direction == "buy" else value - charges,
        traded=traded,
        time=f"{rng.between(8, 21):02d}:{rng.below(60):02d}:{rng.below(60):02d}",
        settled=_move_to_weekday(traded + timedelta(days=2), forward=True),
        venue=rng.pick(_VENUES),
    )


def _draw_quantity(rng: SeededRandom, price: Decimal) -> Decimal:
    """Draw a number of whole shares, or one time in eight a fraction.

    Always worth more than the fees.
    """
    quantity = Decimal(rng.between(1, 900))
    if rng.below(8) == 0:
        quantity = Decimal(rng.between(10_000, 900_000)).scaleb(-4)
    return quantity if quantity * price > 250 else quantity * 200


def _move_to_weekday(day: date, *, forward: bool = False) -> date:
    while day.weekday() > 4:
        day += timedelta(days=1 if forward else -1)
    return day


def _draw_fees(rng: SeededRandom, value: Decimal) -> tuple[TradeCharge, ...]:
    commission = max(Decimal("4.95"), round_to_cents(value * Decimal("0.0025")))
    fees = [TradeCharge("commission", commission)]
    if rng.below(2):
        fees.append(TradeCharge("venue_fee", Decimal(rng.between(75, 490)).scaleb(-2)))
    if rng.below(3) == 0:
        fees.append(TradeCharge("third_party", Decimal(rng.between(20, 250)).scaleb(-2)))
    return tuple(fees)


def _compute_taxes(
    rng: SeededRandom, direction: str, country: str, security: Security, value: Decimal
) -> tuple[TradeCharge, ...]:
    """Compute stamp duty and transaction tax on purchases, capital gains tax on German sales."""
    country_code = security.isin[:2]
    if direction == "buy" and country_code == "GB":
        return (TradeCharge("stamp_duty", round_to_cents(value * Decimal("0.005"))),)
    if direction == "buy" and country_code == "FR":
        return (TradeCharge("transaction_tax", round_to_cents(value * Decimal("0.004"))),)
    if direction == "sell" and country == "DE":
        gain = round_to_cents(value * rng.between(0, 30) / 100)
        tax = round_to_cents(gain * Decimal("0.25"))
        charges = (
            TradeCharge("capital_gains_tax", tax),
            TradeCharge("solidarity_tax", round_to_cents(tax * Decimal("0.055"))),
        )
        return tuple(charge for charge in charges if charge.amount)
    return ()


def to_facts(note: ContractNote) -> dict[str, object]:
    """Return the document's fields in JSON types: amounts as decimal strings, dates as ISO 8601."""
    return {
        "document": "contract-note",
        "number": note.number,
        "order_number": note.order_number,
        "broker": note.broker.name,
        "account": note.account,
        "client": note.client,
        "direction": note.direction,
        "isin": note.security.isin,
        "security": note.security.name,
        "ticker": note.security.ticker,
        "quantity": str(note.quantity),
        "price": str(note.price),
        "price_currency": note.security.currency,
        "gross": str(note.gross),
        "exchange_rate": str(note.rate),
        "value": str(note.value),
        "currency": note.currency,
        "fees": {charge.name: str(charge.amount) for charge in note.fees},
        "taxes": {charge.name: str(charge.amount) for charge in note.taxes},
        "net": str(note.net),
        "trade_date": note.traded.isoformat(),
        "trade_time": note.time,
        "settlement_date": note.settled.isoformat(),
        "venue": note.venue,
        "language": note.language,
    }
