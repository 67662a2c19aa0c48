"""Broker contract notes as data: one trade with its price, fees, taxes and settlement; every sum adds up."""

import functools
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from mailsim.samples.check_digits import bank_account
from mailsim.samples.document_numbers import note_number
from mailsim.samples.firms import Firm, Security, broker, broker_layout, security
from mailsim.samples.localized_formats import cents
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.seeded_random import SeededRandom


@dataclass(frozen=True, slots=True)
class TradeCharge:
    """`name` is a key of the terms: commission, venue_fee, stamp_duty, capital_gains_tax and so on."""

    name: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class ContractNote:
    """`gross` is in the security's currency; `rate` leads to `value`, in `currency` as charges and net."""

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
# units of the home currency for one unit of the traded one
_WORTH = {("USD", "EUR"): 92, ("GBP", "EUR"): 117, ("USD", "GBP"): 79, ("EUR", "GBP"): 85, ("EUR", "CHF"): 95,
          ("USD", "CHF"): 88, ("GBP", "CHF"): 112}  # fmt: skip


@functools.lru_cache(maxsize=256)
def note(order: MessageSpec) -> ContractNote:
    dice = SeededRandom(order.seed, 31)
    layout = broker_layout(order.variant, order.seed)
    house = broker(layout)
    paper = security(dice)
    traded = _weekday(order.date.date() - timedelta(days=dice.below(2)))
    direction = dice.pick(("buy", "buy", "sell"))
    price = Decimal(dice.between(paper.low * 1000, paper.high * 1000)).scaleb(-3)
    quantity = _quantity(dice, price)
    gross = cents(quantity * price)
    currency = _HOME[house.country]
    rate = Decimal(1)
    if paper.currency != currency:
        rate = Decimal(_WORTH[paper.currency, currency] * 100 + dice.between(-250, 250)).scaleb(-4)
    value = cents(gross * rate)
    fees = _fees(dice, value)
    taxes = _taxes(dice, direction, house.country, paper, value)
    charges = sum((charge.amount for charge in (*fees, *taxes)), Decimal(0))
    return ContractNote(
        layout=layout,
        language=order.language,
        broker=house,
        number=note_number(order.seed),
        order_number=dice.digits(8),
        account=dice.digits(10),
        client=(order.to or order.cc or order.bcc)[0][0] or _CLIENTS[order.language],
        cash_account=bank_account(house.country, dice),
        direction=direction,
        security=paper,
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
        time=f"{dice.between(8, 21):02d}:{dice.below(60):02d}:{dice.below(60):02d}",
        settled=_weekday(traded + timedelta(days=2), forward=True),
        venue=dice.pick(_VENUES),
    )


def _quantity(dice: SeededRandom, price: Decimal) -> Decimal:
    """Whole shares, one time in eight a fraction; always worth more than the fees."""
    quantity = Decimal(dice.between(1, 900))
    if dice.below(8) == 0:
        quantity = Decimal(dice.between(10_000, 900_000)).scaleb(-4)
    return quantity if quantity * price > 250 else quantity * 200


def _weekday(day: date, *, forward: bool = False) -> date:
    while day.weekday() > 4:
        day += timedelta(days=1 if forward else -1)
    return day


def _fees(dice: SeededRandom, value: Decimal) -> tuple[TradeCharge, ...]:
    commission = max(Decimal("4.95"), cents(value * Decimal("0.0025")))
    fees = [TradeCharge("commission", commission)]
    if dice.below(2):
        fees.append(TradeCharge("venue_fee", Decimal(dice.between(75, 490)).scaleb(-2)))
    if dice.below(3) == 0:
        fees.append(TradeCharge("third_party", Decimal(dice.between(20, 250)).scaleb(-2)))
    return tuple(fees)


def _taxes(
    dice: SeededRandom, direction: str, country: str, paper: Security, value: Decimal
) -> tuple[TradeCharge, ...]:
    """Stamp duty and transaction taxes on buys, capital gains tax on German sells."""
    place = paper.isin[:2]
    if direction == "buy" and place == "GB":
        return (TradeCharge("stamp_duty", cents(value * Decimal("0.005"))),)
    if direction == "buy" and place == "FR":
        return (TradeCharge("transaction_tax", cents(value * Decimal("0.004"))),)
    if direction == "sell" and country == "DE":
        gain = cents(value * dice.between(0, 30) / 100)
        tax = cents(gain * Decimal("0.25"))
        found = (
            TradeCharge("capital_gains_tax", tax),
            TradeCharge("solidarity_tax", cents(tax * Decimal("0.055"))),
        )
        return tuple(charge for charge in found if charge.amount)
    return ()


def facts(note: ContractNote) -> dict[str, object]:
    """What stands in the document, in JSON's types: amounts as strings with a point, dates as ISO 8601."""
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
