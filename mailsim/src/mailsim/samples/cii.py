"""Rendering of an Invoice as Cross Industry Invoice XML (EN 16931): for Factur-X and XRechnung."""

from datetime import date

from mailsim.samples.firms import Firm
from mailsim.samples.invoices import UNIT_CODES, Invoice, InvoiceLine, InvoiceTax
from mailsim.samples.xml_elements import element, leaf

PROFILES = {
    "en16931": "urn:cen.eu:en16931:2017",
    "basic": "urn:cen.eu:en16931:2017#compliant#urn:factur-x.eu:1p0:basic",
    "xrechnung": "urn:cen.eu:en16931:2017#compliant#urn:xeinkauf.de:kosit:xrechnung_3.0",
}
_NAMESPACES = {
    "xmlns:rsm": "urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100",
    "xmlns:ram": "urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100",
    "xmlns:qdt": "urn:un:unece:uncefact:data:standard:QualifiedDataType:100",
    "xmlns:udt": "urn:un:unece:uncefact:data:standard:UnqualifiedDataType:100",
}


def render_cii(invoice: Invoice, profile: str) -> bytes:
    """Render an invoice in a profile, a key of PROFILES.

    `basic` omits elements outside that profile.
    """
    full = profile != "basic"
    root = element(
        "rsm:CrossIndustryInvoice",
        element("rsm:ExchangedDocumentContext", *_render_context(profile)),
        element(
            "rsm:ExchangedDocument",
            leaf("ram:ID", invoice.number),
            leaf("ram:TypeCode", "380"),
            element("ram:IssueDateTime", _render_day(invoice.issued)),
        ),
        element(
            "rsm:SupplyChainTradeTransaction",
            *(_render_line(position, line) for position, line in enumerate(invoice.lines, 1)),
            _render_agreement(invoice, full=full),
            element(
                "ram:ApplicableHeaderTradeDelivery",
                element(
                    "ram:ActualDeliverySupplyChainEvent",
                    element("ram:OccurrenceDateTime", _render_day(invoice.delivered)),
                ),
            ),
            _render_settlement(invoice, full=full),
        ),
        **_NAMESPACES,
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{root}\n'.encode()


def _render_context(profile: str) -> list[str]:
    """Render the profile, and for XRechnung the business process too."""
    guideline = element("ram:GuidelineSpecifiedDocumentContextParameter", leaf("ram:ID", PROFILES[profile]))
    if profile != "xrechnung":
        return [guideline]
    process = leaf("ram:ID", "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0")
    return [element("ram:BusinessProcessSpecifiedDocumentContextParameter", process), guideline]


def _render_day(day: date) -> str:
    return leaf("udt:DateTimeString", f"{day:%Y%m%d}", format="102")


def _render_line(position: int, line: InvoiceLine) -> str:
    tax = element(
        "ram:ApplicableTradeTax",
        leaf("ram:TypeCode", "VAT"),
        leaf("ram:CategoryCode", "S"),
        leaf("ram:RateApplicablePercent", line.rate),
    )
    total = element(
        "ram:SpecifiedTradeSettlementLineMonetarySummation", leaf("ram:LineTotalAmount", line.amount)
    )
    return element(
        "ram:IncludedSupplyChainTradeLineItem",
        element("ram:AssociatedDocumentLineDocument", leaf("ram:LineID", position)),
        element("ram:SpecifiedTradeProduct", leaf("ram:Name", line.text)),
        element(
            "ram:SpecifiedLineTradeAgreement",
            element("ram:NetPriceProductTradePrice", leaf("ram:ChargeAmount", line.price)),
        ),
        element(
            "ram:SpecifiedLineTradeDelivery",
            leaf("ram:BilledQuantity", line.quantity, unitCode=UNIT_CODES[line.unit]),
        ),
        element("ram:SpecifiedLineTradeSettlement", tax, total),
    )


def _render_agreement(invoice: Invoice, *, full: bool) -> str:
    return element(
        "ram:ApplicableHeaderTradeAgreement",
        leaf("ram:BuyerReference", invoice.purchase_order),
        element("ram:SellerTradeParty", *_render_party(invoice.supplier, contact=full)),
        element("ram:BuyerTradeParty", *_render_party(invoice.buyer, contact=False)),
        element("ram:BuyerOrderReferencedDocument", leaf("ram:IssuerAssignedID", invoice.purchase_order)),
    )


def _render_party(firm: Firm, *, contact: bool) -> list[str]:
    person = element(
        "ram:DefinedTradeContact",
        leaf("ram:PersonName", firm.name),
        element("ram:TelephoneUniversalCommunication", leaf("ram:CompleteNumber", firm.phone)),
        element("ram:EmailURIUniversalCommunication", leaf("ram:URIID", firm.email("billing"))),
    )
    return [
        leaf("ram:Name", firm.name),
        person if contact else "",
        element(
            "ram:PostalTradeAddress",
            leaf("ram:PostcodeCode", firm.postcode),
            leaf("ram:LineOne", firm.street),
            leaf("ram:CityName", firm.city),
            leaf("ram:CountryID", firm.country),
        ),
        element("ram:URIUniversalCommunication", leaf("ram:URIID", firm.email("billing"), schemeID="EM")),
        element("ram:SpecifiedTaxRegistration", leaf("ram:ID", firm.vat_id, schemeID="VA")),
    ]


def _render_settlement(invoice: Invoice, *, full: bool) -> str:
    bank = element("ram:PayeeSpecifiedCreditorFinancialInstitution", leaf("ram:BICID", invoice.supplier.bic))
    means = element(
        "ram:SpecifiedTradeSettlementPaymentMeans",
        leaf("ram:TypeCode", "58" if invoice.currency == "EUR" else "30"),
        element("ram:PayeePartyCreditorFinancialAccount", leaf("ram:IBANID", invoice.supplier.iban)),
        bank if full else "",
    )
    return element(
        "ram:ApplicableHeaderTradeSettlement",
        leaf("ram:PaymentReference", invoice.number),
        leaf("ram:InvoiceCurrencyCode", invoice.currency),
        means,
        *(_render_tax(tax) for tax in invoice.taxes),
        element("ram:SpecifiedTradePaymentTerms", element("ram:DueDateDateTime", _render_day(invoice.due))),
        element(
            "ram:SpecifiedTradeSettlementHeaderMonetarySummation",
            leaf("ram:LineTotalAmount", invoice.net),
            leaf("ram:TaxBasisTotalAmount", invoice.net),
            leaf("ram:TaxTotalAmount", invoice.vat, currencyID=invoice.currency),
            leaf("ram:GrandTotalAmount", invoice.gross),
            leaf("ram:DuePayableAmount", invoice.gross),
        ),
    )


def _render_tax(tax: InvoiceTax) -> str:
    return element(
        "ram:ApplicableTradeTax",
        leaf("ram:CalculatedAmount", tax.amount),
        leaf("ram:TypeCode", "VAT"),
        leaf("ram:BasisAmount", tax.base),
        leaf("ram:CategoryCode", "S"),
        leaf("ram:RateApplicablePercent", tax.rate),
    )
