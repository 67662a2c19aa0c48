"""Reads e-invoice XML (Factur-X, ZUGFeRD, XRechnung, UBL) and compares it with the visible text.

The XML (ZUGFeRD 1 included) is a file of its own or embedded in a PDF. Its values are taken as they are. If
the visible text differs, the document needs review. `files.pdf` extracts embedded files. It runs in a
sandboxed child.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any, Final, cast

from lxml import etree as _etree  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]

from postroom.documents.fields.currencies import list_sharing_sign
from postroom.documents.fields.document_text import DocumentText
from postroom.documents.fields.extraction_result import EInvoiceDifference, FieldValue
from postroom.documents.fields.value_parsing import ParsedValue, find_values
from postroom.documents.files.file_reading import EmbeddedFile
from postroom.documents.kinds.invoice import InvoiceLine, VatAmount

# lxml has no types.
etree: Any = _etree  # pyright: ignore[reportUnknownVariableType]
_MAX_XML_BYTES: Final = 20_000_000
_CONFIDENCE: Final = 0.999
# UNTDID 1001: credit notes, and invoices that correct another one.
_CREDIT_NOTE_TYPES: Final = frozenset(
    {"81", "83", "261", "262", "296", "308", "381", "396", "420", "458", "532"}
)
_CORRECTION_TYPES: Final = frozenset({"384"})
_TYPE_CODE_PATHS: Final = (
    "InvoiceTypeCode",
    "CreditNoteTypeCode",
    "ExchangedDocument/TypeCode",
    "HeaderExchangedDocument/TypeCode",
)
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})")


@dataclass(frozen=True, slots=True)
class EInvoice:
    """The fields of an e-invoice, and its syntax."""

    syntax: str
    name: str
    fields: dict[str, FieldValue]
    review_reason: str | None = None  # why it needs review, whatever its fields


class _XmlNode:
    """An XML element, queried by local names: namespaces differ between versions, names do not."""

    def __init__(self, element: Any) -> None:
        self._element = element

    def all(self, path: str) -> "list[_XmlNode]":
        steps = "/".join(f"*[local-name()='{step}']" for step in path.split("/"))
        return [_XmlNode(found) for found in self._element.xpath(steps)]

    def first(self, *paths: str) -> "_XmlNode | None":
        return next((found[0] for path in paths if (found := self.all(path))), None)

    def text(self, *paths: str) -> str | None:
        for path in paths:
            for found in self.all(path):
                if said := found.own_text:
                    return said
        return None

    def attribute(self, name: str) -> str:
        return str(self._element.get(name) or "")

    @property
    def name(self) -> str:
        return str(etree.QName(self._element).localname)

    @property
    def own_text(self) -> str:
        """Its text; empty if it has child elements, because a part of a value is a different value."""
        return "" if len(self._element) else (self._element.text or "").strip()


def find_einvoice(files: Iterable[EmbeddedFile]) -> EInvoice | None:
    """Return the first e-invoice, trying files with a usual name first."""
    usual = re.compile(r"factur-?x|zugferd|xrechnung|order-x", re.IGNORECASE)
    for file in sorted(files, key=lambda each: not usual.search(each.name)):
        found = parse_einvoice(file.content, name=file.name)
        if found:
            return found
    return None


def parse_einvoice(content: bytes, *, name: str) -> EInvoice | None:
    """Parse e-invoice XML; None if it is not an e-invoice, malformed or suspicious."""
    root = _parse_root(content)
    if root is None:
        return None
    match root.name:
        case "CrossIndustryInvoice" | "CrossIndustryDocument":
            found, syntax = _cii_fields(root), "CII"
        case "Invoice" | "CreditNote":
            found, syntax = _ubl_fields(root), "UBL"
        case _:
            return None
    kept = {field: value for field, value in found if value not in (None, (), "")}
    if "number" not in kept:
        return None
    code = root.text(*_TYPE_CODE_PATHS) or ""
    review_reason = f"it corrects another invoice (type {code})" if code in _CORRECTION_TYPES else None
    if root.name == "CreditNote" or code in _CREDIT_NOTE_TYPES:
        review_reason = "it is a credit note with a negative amount" if kept.get("gross", 0) < 0 else None
        kept = kept if review_reason else {field: _negate_amounts(value) for field, value in kept.items()}
    evidence = f"the XML of the e-invoice ({syntax})"
    fields = {field: FieldValue(value, _CONFIDENCE, evidence) for field, value in kept.items()}
    return EInvoice(syntax, name, fields, review_reason)


def _negate_amounts(value: Any) -> Any:
    """Negate the amounts of a credit note, which are written without a sign."""
    match value:
        case Decimal():
            return -value
        case tuple():
            return tuple(_negate_amounts(each) for each in cast("tuple[Any, ...]", value))
        case VatAmount(rate, net, vat):
            return VatAmount(rate, None if net is None else -net, -vat)
        case InvoiceLine(description, quantity, price, amount):
            return InvoiceLine(description, None if quantity is None else -quantity, price, -amount)
        case _:
            return value


def _parse_root(content: bytes) -> _XmlNode | None:
    if len(content) > _MAX_XML_BYTES or b"<" not in content[:4096]:
        return None
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        recover=False,
        # Comments and processing instructions would cut off the text of the element around them.
        remove_comments=True,
        remove_pis=True,
    )
    try:
        element = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    # No e-invoice has a DTD; a file with one may define entities.
    return None if element.getroottree().docinfo.doctype else _XmlNode(element)


def _to_decimal(text: str | None) -> Decimal | None:
    """Parse a plain decimal number: NaN, Infinity and 1E9999 are not amounts."""
    said = (text or "").strip()
    return Decimal(said) if _NUMBER.fullmatch(said) else None


def _to_date(text: str | None) -> date | None:
    digits = re.sub(r"\D", "", text or "")[:8]
    try:
        return date(int(digits[:4]), int(digits[4:6]), int(digits[6:8])) if len(digits) == 8 else None
    except ValueError:
        return None


def _compact_iban(text: str | None) -> str | None:
    return re.sub(r"\s", "", text).upper() if text else None


def _cii_fields(root: _XmlNode) -> Iterator[tuple[str, Any]]:
    document = root.first("ExchangedDocument", "HeaderExchangedDocument") or root
    trade = root.first("SupplyChainTradeTransaction", "SpecifiedSupplyChainTradeTransaction") or root
    agreement = trade.first("ApplicableHeaderTradeAgreement", "ApplicableSupplyChainTradeAgreement") or trade
    delivery = trade.first("ApplicableHeaderTradeDelivery", "ApplicableSupplyChainTradeDelivery") or trade
    settlement = (
        trade.first("ApplicableHeaderTradeSettlement", "ApplicableSupplyChainTradeSettlement") or trade
    )
    sums = (
        settlement.first(
            "SpecifiedTradeSettlementHeaderMonetarySummation", "SpecifiedTradeSettlementMonetarySummation"
        )
        or settlement
    )
    currency = settlement.text("InvoiceCurrencyCode")
    yield "supplier", agreement.text("SellerTradeParty/Name")
    yield "vat_id", _cii_vat_id(agreement)
    yield "buyer", agreement.text("BuyerTradeParty/Name")
    yield "number", document.text("ID")
    yield "issued_on", _to_date(document.text("IssueDateTime/DateTimeString"))
    yield (
        "delivered_on",
        _to_date(delivery.text("ActualDeliverySupplyChainEvent/OccurrenceDateTime/DateTimeString")),
    )
    yield "due_on", _to_date(settlement.text("SpecifiedTradePaymentTerms/DueDateDateTime/DateTimeString"))
    yield "currency", currency
    yield "net", _to_decimal(sums.text("TaxBasisTotalAmount"))
    yield "vat", _amount_in_currency(sums.all("TaxTotalAmount"), currency)
    yield "gross", _to_decimal(sums.text("GrandTotalAmount"))
    yield "prepaid", _to_decimal(sums.text("TotalPrepaidAmount"))
    yield "payable", _to_decimal(sums.text("DuePayableAmount"))
    yield (
        "iban",
        _compact_iban(
            settlement.text("SpecifiedTradeSettlementPaymentMeans/PayeePartyCreditorFinancialAccount/IBANID")
        ),
    )
    order = agreement.first("BuyerOrderReferencedDocument")
    yield "purchase_order", order.text("IssuerAssignedID", "ID") if order else None
    yield "vat_rates", tuple(_cii_rates(settlement))
    yield "lines", tuple(_cii_lines(trade))


def _cii_vat_id(agreement: _XmlNode) -> str | None:
    ids = agreement.all("SellerTradeParty/SpecifiedTaxRegistration/ID")
    return next((each.own_text.replace(" ", "") for each in ids if each.attribute("schemeID") == "VA"), None)


def _amount_in_currency(amounts: Sequence[_XmlNode], currency: str | None) -> Decimal | None:
    """Return the amount in the invoice's currency; some invoices state tax in the national currency too."""
    ours = [each for each in amounts if each.attribute("currencyID") in {"", currency}]
    return _to_decimal((ours or list(amounts))[0].own_text) if amounts else None


def _cii_rates(settlement: _XmlNode) -> Iterator[VatAmount]:
    for tax in settlement.all("ApplicableTradeTax"):
        rate = _to_decimal(tax.text("RateApplicablePercent", "ApplicablePercent"))
        vat = _to_decimal(tax.text("CalculatedAmount"))
        if vat is not None:
            yield VatAmount(rate or Decimal(0), _to_decimal(tax.text("BasisAmount")), vat)


def _cii_lines(trade: _XmlNode) -> Iterator[InvoiceLine]:
    for line in trade.all("IncludedSupplyChainTradeLineItem"):
        settled = line.first("SpecifiedLineTradeSettlement", "SpecifiedSupplyChainTradeSettlement") or line
        summed = (
            settled.first(
                "SpecifiedTradeSettlementLineMonetarySummation", "SpecifiedTradeSettlementMonetarySummation"
            )
            or settled
        )
        agreed = line.first("SpecifiedLineTradeAgreement", "SpecifiedSupplyChainTradeAgreement") or line
        delivered = line.first("SpecifiedLineTradeDelivery", "SpecifiedSupplyChainTradeDelivery") or line
        amount = _to_decimal(summed.text("LineTotalAmount"))
        if amount is not None:
            yield InvoiceLine(
                line.text("SpecifiedTradeProduct/Name") or "",
                _to_decimal(delivered.text("BilledQuantity")),
                _to_decimal(agreed.text("NetPriceProductTradePrice/ChargeAmount")),
                amount,
            )


def _ubl_fields(root: _XmlNode) -> Iterator[tuple[str, Any]]:
    party = root.first("AccountingSupplierParty/Party") or root
    total = root.first("LegalMonetaryTotal") or root
    currency = root.text("DocumentCurrencyCode")
    yield "supplier", _ubl_name(party)
    yield "vat_id", _ubl_vat_id(party)
    yield "buyer", _ubl_name(root.first("AccountingCustomerParty/Party"))
    yield "number", root.text("ID")
    yield "issued_on", _to_date(root.text("IssueDate"))
    yield "delivered_on", _to_date(root.text("Delivery/ActualDeliveryDate"))
    yield "due_on", _to_date(root.text("DueDate", "PaymentMeans/PaymentDueDate"))
    yield "currency", currency
    yield "net", _to_decimal(total.text("TaxExclusiveAmount"))
    yield "vat", _amount_in_currency(root.all("TaxTotal/TaxAmount"), currency)
    yield "gross", _to_decimal(total.text("TaxInclusiveAmount", "PayableAmount"))
    yield "prepaid", _to_decimal(total.text("PrepaidAmount"))
    yield "payable", _to_decimal(total.text("PayableAmount"))
    yield "iban", _compact_iban(root.text("PaymentMeans/PayeeFinancialAccount/ID"))
    yield "purchase_order", root.text("OrderReference/ID")
    yield "vat_rates", tuple(_ubl_rates(root))
    yield "lines", tuple(_ubl_lines(root))


def _ubl_name(party: _XmlNode | None) -> str | None:
    return party.text("PartyLegalEntity/RegistrationName", "PartyName/Name") if party else None


def _ubl_vat_id(party: _XmlNode) -> str | None:
    for scheme in party.all("PartyTaxScheme"):
        if (scheme.text("TaxScheme/ID") or "VAT").upper() in {"VAT", "VA"}:
            return (scheme.text("CompanyID") or "").replace(" ", "") or None
    return None


def _ubl_rates(root: _XmlNode) -> Iterator[VatAmount]:
    for tax in root.all("TaxTotal/TaxSubtotal"):
        vat = _to_decimal(tax.text("TaxAmount"))
        if vat is not None:
            rate = _to_decimal(tax.text("TaxCategory/Percent", "Percent"))
            yield VatAmount(rate or Decimal(0), _to_decimal(tax.text("TaxableAmount")), vat)


def _ubl_lines(root: _XmlNode) -> Iterator[InvoiceLine]:
    for line in (*root.all("InvoiceLine"), *root.all("CreditNoteLine")):
        amount = _to_decimal(line.text("LineExtensionAmount"))
        if amount is not None:
            quantity = _to_decimal(line.text("InvoicedQuantity", "CreditedQuantity"))
            price = _to_decimal(line.text("Price/PriceAmount"))
            yield InvoiceLine(line.text("Item/Name", "Item/Description") or "", quantity, price, amount)


def find_differences(einvoice: EInvoice, document: DocumentText) -> tuple[EInvoiceDifference, ...]:
    """Return the review reason of the XML and its values that the visible text does not contain."""
    reasons = (EInvoiceDifference("type", "", einvoice.review_reason),) if einvoice.review_reason else ()
    if sum(len(line.text) for line in document.lines) < 40:
        return reasons
    fields = {name: field.value for name, field in einvoice.fields.items()}
    found = find_values(document)
    visible = {
        name: _is_visible(fields[name], found, document)
        for name in ("number", "issued_on", "gross", "iban", "supplier")
        if name in fields
    }
    if "currency" in fields:
        visible["currency"] = _currency_is_visible(fields["currency"], fields.get("gross"), found)
    return reasons + tuple(
        EInvoiceDifference(
            name, str(fields[name]), f"the XML says {fields[name]} for {name}; the visible text does not"
        )
        for name, is_visible in visible.items()
        if not is_visible
    )


def _currency_is_visible(currency: str, gross: Decimal | None, found: Sequence[ParsedValue]) -> bool:
    """Check the currency beside the amount, else anywhere.

    A text without a currency contradicts nothing.
    """
    numbers = [value for value in found if value.shape == "number" and value.currency]
    beside = {value.currency for value in numbers if gross is not None and abs(value.number) == abs(gross)}
    every = [value for value in found if value.shape == "currency"]
    named = beside or {str(value.content) for value in every}
    named |= {
        code
        for value in every
        if value.ambiguity and value.content in named
        for code in list_sharing_sign(str(value.content))
    }
    return not named or currency in named


def _is_visible(value: Any, found: Sequence[ParsedValue], document: DocumentText) -> bool:
    if isinstance(value, Decimal):
        return any(each.shape == "number" and abs(each.number) == abs(value) for each in found)
    if isinstance(value, date):
        return any(each.shape == "date" and value in {each.content, each.other} for each in found)
    squeezed = re.sub(r"[\W_]", "", document.text.casefold())
    if re.sub(r"[\W_]", "", str(value).casefold()) in squeezed:
        return True
    words = re.findall(r"[^\W\d_]{3,}", str(value).casefold())
    return (
        bool(words)
        and sum(word in squeezed for word in words) >= 0.6 * len(words)
        and not re.search(r"\d", str(value))
    )


def locate_fields(einvoice: EInvoice, document: DocumentText) -> dict[str, FieldValue]:
    """Return the fields with their positions in the visible text, where it contains them."""
    found = {(value.shape, value.content): value for value in reversed(find_values(document))}
    return {name: _locate_field(field, found, document) for name, field in einvoice.fields.items()}


def _locate_field(
    field: FieldValue, found: dict[tuple[str, Any], ParsedValue], document: DocumentText
) -> FieldValue:
    value: Any = field.value
    for shape in ("number", "date", "iban", "vat_id", "currency"):
        at = None if isinstance(value, tuple) else found.get((shape, value))
        if at:
            line = document.lines[at.line]
            return replace(field, page=line.page, box=line.box(at.start, at.end))
    if isinstance(value, str):
        for line in document.lines:
            start = line.text.find(value)
            if start >= 0:
                return replace(field, page=line.page, box=line.box(start, start + len(value)))
    return field
