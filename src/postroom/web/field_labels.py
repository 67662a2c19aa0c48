"""Labels of document fields and table columns, as people read them: "VAT ID", "Net amount (EUR)".

Only text, no HTML. Fields of kinds that an operator defined have no entry here; their labels are derived from
their names.
"""

from collections.abc import Mapping
from typing import Final

_INVOICE: Final[Mapping[str, str]] = {
    "supplier": "Supplier",
    "vat_id": "VAT ID",
    "buyer": "Addressee",
    "number": "Invoice number",
    "issued_on": "Issued",
    "delivered_on": "Delivered",
    "due_on": "Due",
    "currency": "Currency",
    "net": "Net amount",
    "vat": "VAT",
    "gross": "Gross amount",
    "prepaid": "Already paid",
    "payable": "Amount due",
    "vat_rates": "VAT rates",
    "iban": "IBAN",
    "purchase_order": "Purchase order",
    "lines": "Line items",
}
_CONTRACT_NOTE: Final[Mapping[str, str]] = {
    "broker": "Broker",
    "number": "Contract note number",
    "account": "Securities account",
    "trade_date": "Trade date",
    "settlement_date": "Settlement date",
    "issued_on": "Issued",
    "isin": "ISIN",
    "ticker": "Ticker symbol",
    "name": "Security",
    "direction": "Buy or sell",
    "quantity": "Quantity",
    "price": "Price per unit",
    "currency": "Currency",
    "gross": "Gross amount",
    "fees": "Fees",
    "accrued_interest": "Accrued interest",
    "taxes": "Taxes",
    "net": "Net amount",
}
LABELS: Final[Mapping[str, Mapping[str, str]]] = {"invoice": _INVOICE, "contract-note": _CONTRACT_NOTE}
_COLUMNS: Final[Mapping[str, str]] = {
    "rate": "VAT rate",
    "net": "Net amount",
    "vat": "VAT",
    "gross": "Gross amount",
    "unit_price": "Unit price",
    "amount": "Amount",
}
# Columns that hold amounts of money, in any kind of document.
MONEY_COLUMNS: Final = frozenset({"amount", "net", "tax", "vat", "gross", "price", "unit_price", "total"})
_ACRONYMS: Final = frozenset({"bic", "iban", "id", "isin", "lei", "po", "url", "vat", "wkn"})


def field_label(kind: str | None, name: str, unit: str = "") -> str:
    """The label of a field in a document of `kind`, with its unit in parentheses."""
    label = LABELS.get(kind or "", {}).get(name) or humanize(name)
    return f"{label} ({unit})" if unit else label


def column_label(name: str, currency: str = "") -> str:
    """The heading of a table column: rates are percentages, amounts are in the document's currency."""
    unit = "%" if "rate" in name else currency if name in MONEY_COLUMNS else ""
    label = _COLUMNS.get(name) or humanize(name)
    return f"{label} ({unit})" if unit else label


def kind_label(kind: str) -> str:
    """The name of a kind of document: `contract-note` is "Contract note"."""
    return humanize(kind)


def in_sentence(name: str, kind: str | None = None) -> str:
    """The label of a field, quoted for use inside a sentence; without a kind, the first known label."""
    known = next((labels[name] for labels in LABELS.values() if name in labels), None)
    return f"“{LABELS.get(kind or '', {}).get(name) or known or humanize(name)}”"


def humanize(name: str) -> str:
    """Turn an identifier into words: `customer_vat_id` becomes "Customer VAT ID"."""
    words = [
        word.upper() if word in _ACRONYMS else word for word in name.replace("-", "_").split("_") if word
    ]
    sentence = " ".join(words)
    return sentence[:1].upper() + sentence[1:]
