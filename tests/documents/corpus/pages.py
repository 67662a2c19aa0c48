"""Writes invoices and contract notes in five languages, as their text layers have them."""

from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

from postroom.documents.fields.document_text import fold_text
from postroom.documents.files import plain_text
from postroom.documents.files.file_reading import FileReading

LANGUAGES = ("en", "de", "fr", "es", "it")
LAYOUTS = ("colon", "columns", "below")
VAT_IDS = (
    "GB980780684",
    "ESB12345674",
    "IT00743110157",
    "NL004495445B01",
    "PT501964843",
    "DE136695976",
    "DE129273398",
    "FR40303265045",
    "ATU13585627",
    "BE0403019261",
    "DK13585628",
    "FI20774740",
    "IE6433435F",
    "LU15027442",
    "PL8567346215",
    "SE123456789701",
    "CZ25123891",
    "HU12892312",
    "SI50223054",
    "EL094259216",
    "RO18547290",
    "SK2022749619",
    "EE100931558",
    "HR33392005961",
)
SYMBOLS = {"EUR": "€", "GBP": "£", "CHF": "CHF"}
_INVOICE_WORDS = {
    "en": "title=Invoice|credit=Credit note|number=Invoice number|date=Invoice date|due=Due date"
    "|net=Net amount|vat=VAT {rate}%|gross=Total amount|prepaid=Deposit paid|payable=Balance due"
    "|vat_id=VAT ID|to=Bill to|table=Description Qty Unit price Amount"
    "|goods=Printed leaflets;Labels;Envelopes"
    "|bank=Bank details|firm=Harbour Print Ltd|street=12 Quay Street, Bristol|buyer=Alder Works Ltd"
    "|original=Original invoice"
    "|to_street=44 Park Road, York YO1 7HH|taxes=VAT|rates=Rate;Net;VAT;Gross",
    "de": "title=Rechnung|credit=Gutschrift|number=Rechnungsnummer|date=Rechnungsdatum|due=Fällig am"
    "|net=Nettobetrag|vat=MwSt. {rate} %|gross=Gesamtbetrag|prepaid=Anzahlung|payable=Restbetrag"
    "|vat_id=USt-IdNr|to=Rechnung an|table=Bezeichnung Menge Einzelpreis Betrag"
    "|goods=Faltblätter;Etiketten;Umschläge|bank=Bankverbindung|firm=Hafendruck Fichte GmbH"
    "|street=Kaiweg 12, 28195 Bremen|buyer=Erlenwerk GmbH|original=Ursprungsrechnung"
    "|to_street=Parkstr. 44, 20095 Hamburg|taxes=MwSt|rates=Satz;Netto;MwSt;Brutto",
    "fr": "title=Facture|credit=Avoir|number=Numéro de facture|date=Date de facture|due=Date d'échéance"
    "|net=Total HT|vat=TVA {rate} %|gross=Total TTC|prepaid=Acompte versé|payable=Reste à payer"
    "|vat_id=N° TVA|to=Facturé à|table=Désignation Quantité Prix unitaire Montant"
    "|goods=Dépliants;Étiquettes;Enveloppes|bank=Coordonnées bancaires|firm=Imprimerie du Quai SARL"
    "|street=12 rue du Port, 44000 Nantes|buyer=Ateliers Aulne SAS|original=Facture d'origine"
    "|to_street=44 rue du Parc, 75002 Paris|taxes=TVA|rates=Taux;Base HT;TVA;TTC",
    "es": "title=Factura|credit=Nota de crédito|number=Número de factura|date=Fecha de factura"
    "|due=Fecha de vencimiento|net=Base imponible|vat=IVA {rate} %|gross=Total factura|prepaid=Anticipo"
    "|payable=Importe pendiente|vat_id=NIF|to=Facturar a|table=Descripción Cantidad Precio Importe"
    "|goods=Folletos;Etiquetas;Sobres|bank=Datos bancarios|firm=Imprenta del Muelle SL"
    "|street=Calle del Puerto 12, 39001 Santander|buyer=Talleres Aliso SL|original=Factura original"
    "|to_street=Calle del Parque 44, 08001 Barcelona|taxes=IVA|rates=Tipo;Base;Cuota;Total",
    "it": "title=Fattura|credit=Nota di credito|number=Numero fattura|date=Data fattura|due=Scadenza"
    "|net=Imponibile|vat=IVA {rate} %|gross=Totale fattura|prepaid=Acconto|payable=Netto a pagare"
    "|vat_id=Partita IVA|to=Intestatario|table=Descrizione Quantità Prezzo Importo"
    "|goods=Pieghevoli;Etichette;Buste|bank=Coordinate bancarie|firm=Tipografia del Molo Srl"
    "|street=Via del Porto 12, 16126 Genova|buyer=Officine Ontano Srl|original=Fattura originale"
    "|to_street=Via del Parco 44, 10121 Torino|taxes=IVA|rates=Aliquota;Imponibile;Imposta;Totale",
}
_NOTE_WORDS = {
    "en": "title=Contract note|number=Contract note number|account=Account number|buy=We have bought"
    "|sell=We have sold|traded=Trade date|settled=Settlement date|security=Security|quantity=Quantity"
    "|price=Price|gross=Consideration|fee=Commission|net_buy=Total payable|net_sell=Total receivable"
    "|amended=Amended contract note|cancelled=Cancelled contract note|firm=Northgate Brokers plc",
    "de": "title=Wertpapierabrechnung|number=Abrechnungsnummer|account=Depotnummer|buy=Wertpapierkauf"
    "|sell=Wertpapierverkauf|traded=Handelstag|settled=Valuta|security=Wertpapierbezeichnung|quantity=Stück"
    "|price=Kurs|gross=Kurswert|fee=Provision|net_buy=Ausmachender Betrag|net_sell=Ausmachender Betrag"
    "|amended=Korrektur der Wertpapierabrechnung|cancelled=Storno Wertpapierabrechnung|firm=Granitbank AG",
    "fr": "title=Avis d'opéré|number=Numéro d'opération|account=Numéro de compte|buy=Achat|sell=Vente"
    "|traded=Date d'exécution|settled=Date de règlement|security=Désignation|quantity=Quantité|price=Cours"
    "|gross=Montant brut|fee=Commission|net_buy=Montant net|net_sell=Montant net"
    "|amended=Avis d'opéré rectificatif|cancelled=Annulation de l'avis d'opéré|firm=Banque du Granit SA",
    "es": "title=Nota de operación|number=Número de operación|account=Cuenta de valores|buy=Compra|sell=Venta"
    "|traded=Fecha de ejecución|settled=Fecha valor|security=Nombre del valor|quantity=Número de títulos"
    "|price=Precio|gross=Importe bruto|fee=Comisión|net_buy=Importe neto|net_sell=Importe neto"
    "|amended=Rectificación de la nota de operación|cancelled=Anulación de la nota de operación"
    "|firm=Banco Granito SA",
    "it": "title=Nota di eseguito|number=Numero operazione|account=Deposito titoli|buy=Acquisto|sell=Vendita"
    "|traded=Data esecuzione|settled=Data valuta|security=Titolo|quantity=Quantità|price=Prezzo"
    "|gross=Controvalore|fee=Commissione|net_buy=Importo netto|net_sell=Importo netto"
    "|amended=Rettifica della nota di eseguito|cancelled=Annullamento della nota di eseguito"
    "|firm=Banca Granito SpA",
}


def parse_words(lines: dict[str, str]) -> dict[str, dict[str, str]]:
    return {
        language: dict(part.split("=", 1) for part in text.split("|")) for language, text in lines.items()
    }


INVOICE_WORDS, NOTE_WORDS = parse_words(_INVOICE_WORDS), parse_words(_NOTE_WORDS)


def format_number(value: Decimal | int, language: str) -> str:
    """Format as the language does: 1,234.56 or 1.234,56 or 1 234,56."""
    text = f"{value:,}"
    return text if language == "en" else text.translate({44: {"fr": " "}.get(language, "."), 46: ","})


def read_text(text: str) -> FileReading:
    return FileReading(plain_text.to_transcript(text))


@dataclass(frozen=True)
class Item:
    """A line item; its amount is quantity x price."""

    quantity: Decimal
    price: Decimal
    rate: Decimal = Decimal(20)

    @property
    def amount(self) -> Decimal:
        return (self.quantity * self.price).quantize(Decimal("0.01"))


@dataclass(frozen=True)
class InvoicePage:
    """An invoice. `shown` overrides how an amount is printed; `extra` are more lines before the totals."""

    language: str = "en"
    layout: str = "colon"
    number: str = "20417"
    issued: date = date(2026, 10, 14)
    due: date | None = date(2026, 11, 13)
    items: tuple[Item, ...] = (Item(Decimal(5), Decimal("25.00")),)
    currency: str = "EUR"
    sign: int = 1
    is_credit: bool = False
    notation: str = "{amount} {currency}"
    vat_id: str = ""
    buyer_vat_id: str = ""
    buyer: str = ""
    iban: str = "DE02120300000000202051"
    prepaid: Decimal = Decimal(0)
    extra: tuple[str, ...] = ()
    hides_lines: bool = False
    shows_taxes_in_rows: bool = False
    has_sender_line: bool = False
    taxes: dict[Decimal, Decimal] = field(init=False)

    def __post_init__(self) -> None:
        taxes: dict[Decimal, Decimal] = {}
        for item in self.items:
            taxes[item.rate] = taxes.get(item.rate, Decimal(0)) + item.amount
        object.__setattr__(self, "taxes", {rate: _percent(net, rate) for rate, net in taxes.items()})

    @property
    def net(self) -> Decimal:
        return sum((item.amount for item in self.items), Decimal(0))

    @property
    def gross(self) -> Decimal:
        return self.net + sum(self.taxes.values())

    def get_truth(self) -> dict[str, Any]:
        """The values that a record of this invoice may have, and no others."""
        words = INVOICE_WORDS[self.language]
        truth: dict[str, Any] = {
            "supplier": words["firm"],
            "number": self.number,
            "issued_on": self.issued,
            "due_on": self.due,
            "currency": self.currency,
            "net": self.sign * self.net,
            "gross": self.sign * self.gross,
            "vat": self.sign * (self.gross - self.net),
            "iban": self.iban,
            "vat_id": self.vat_id or None,
            "buyer": self.buyer or words["buyer"],
        }
        if self.prepaid:
            truth |= {"prepaid": self.prepaid, "payable": self.gross - self.prepaid}
        return truth

    def write(self) -> str:
        words = INVOICE_WORDS[self.language]
        title = words["credit"] if self.is_credit else words["title"]
        domain = "-".join(fold_text(words["firm"]).split()[:2])
        head = [f"{words['firm']} | {words['street']} | www.{domain}.example"]
        head += [f"{words['vat_id']}: {self.vat_id}"] if self.vat_id and not self.has_sender_line else []
        to = [] if self.has_sender_line else [words["to"]]
        to += [self.buyer or words["buyer"], words["to_street"]]
        to += [f"{words['vat_id']}: {self.buyer_vat_id}"] if self.buyer_vat_id else []
        facts = [
            (words["number"], self.number),
            (words["date"], f"{self.issued:%Y-%m-%d}"),
            *([(words["due"], f"{self.due:%Y-%m-%d}")] if self.due else []),
        ]
        lines = [*head, "", *to, "", title, *self._write_facts(facts), ""]
        if not self.hides_lines:
            lines += [words["table"], *self._write_items(words["goods"].split(";")), ""]
        lines += [*self.extra, *self._write_totals(words), "", f"{words['bank']}: IBAN {self.iban}"]
        if self.has_sender_line:
            lines += ["", f"{words['firm']} | {words['street']} | {words['vat_id']} {self.vat_id}"]
        return "\n".join(lines)

    def _write_facts(self, facts: list[tuple[str, str]]) -> list[str]:
        match self.layout:
            case "colon":
                return [f"{label}: {value}" for label, value in facts]
            case "columns":
                return [f"{label:<40}{value}" for label, value in facts]
            case _:
                return ["".join(f"{label:<30}" for label, _ in facts), "".join(f"{v:<30}" for _, v in facts)]

    def _write_items(self, goods: list[str]) -> list[str]:
        rows: list[str] = []
        for place, item in enumerate(self.items):
            figures = (item.quantity, item.price, self.sign * item.amount)
            shown = "".join(f"{format_number(figure, self.language):>15}" for figure in figures)
            rows.append(f"{goods[place % len(goods)]:<30}{shown}")
        return rows

    def _write_totals(self, words: dict[str, str]) -> list[str]:
        rows = [(words["net"], self.net)]
        if self.shows_taxes_in_rows:
            rows += [(words["taxes"], self.gross - self.net)]
        else:
            rows += [
                (words["vat"].format(rate=format_number(rate, self.language)), tax)
                for rate, tax in self.taxes.items()
            ]
        rows += [(words["gross"], self.gross)]
        if self.prepaid:
            rows += [(words["prepaid"], self.prepaid), (words["payable"], self.gross - self.prepaid)]
        table = self._write_tax_table(words) if self.shows_taxes_in_rows else []
        return [*table, *(f"{label:<40}{self.show(amount):>20}" for label, amount in rows)]

    def _write_tax_table(self, words: dict[str, str]) -> list[str]:
        rows = ["".join(f"{head:>16}" for head in words["rates"].split(";"))]
        for rate, tax in self.taxes.items():
            net = sum((item.amount for item in self.items if item.rate == rate), Decimal(0))
            figures = [format_number(each, self.language) for each in (net, tax, net + tax)]
            rows.append(
                "".join(f"{each:>16}" for each in (f"{format_number(rate, self.language)} %", *figures))
            )
        return [*rows, ""]

    def show(self, amount: Decimal) -> str:
        """An amount in this invoice's notation."""
        return self.notation.format(
            amount=format_number(amount, self.language),
            currency=self.currency,
            symbol=SYMBOLS[self.currency],
        )


def _percent(net: Decimal, rate: Decimal) -> Decimal:
    return (net * rate / 100).quantize(Decimal("0.01"))


@dataclass(frozen=True)
class NotePage:
    """A contract note for a trade with one fee."""

    language: str = "en"
    number: str = "CN1001"
    isin: str = "US0378331005"
    side: str = "buy"
    traded: date = date(2026, 10, 14)
    settled: date = date(2026, 10, 16)
    quantity: Decimal = Decimal(100)
    price: Decimal = Decimal("180.00")
    fee: Decimal = Decimal("10.00")
    currency: str = "USD"
    title: str = "title"
    extra: tuple[str, ...] = ()

    @property
    def gross(self) -> Decimal:
        return self.quantity * self.price

    @property
    def net(self) -> Decimal:
        return self.gross + (self.fee if self.side == "buy" else -self.fee)

    def get_truth(self) -> dict[str, Any]:
        return {
            "isin": self.isin,
            "direction": self.side,
            "trade_date": self.traded,
            "settlement_date": self.settled,
            "quantity": self.quantity,
            "price": self.price,
            "gross": self.gross,
            "net": self.net,
            "currency": self.currency,
            "fees": self.fee,
            "number": self.number,
        }

    def write(self) -> str:
        words = NOTE_WORDS[self.language]
        amounts = {"price": self.price, "gross": self.gross, "fee": self.fee, f"net_{self.side}": self.net}
        return "\n".join(
            [
                words["firm"],
                "",
                words[self.title],
                f"{words['number']}: {self.number}",
                f"{words['account']}: 11223344",
                words[self.side],
                f"{words['security']}: Clairmont Energie",
                f"ISIN: {self.isin}",
                f"{words['traded']}: {self.traded:%Y-%m-%d}",
                f"{words['settled']}: {self.settled:%Y-%m-%d}",
                f"{words['quantity']}: {format_number(self.quantity, self.language)}",
                *(
                    f"{words[name]}: {format_number(amount, self.language)} {self.currency}"
                    for name, amount in amounts.items()
                ),
                *self.extra,
            ]
        )
