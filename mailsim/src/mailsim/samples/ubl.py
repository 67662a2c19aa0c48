"""Rendering of an Invoice as UBL 2.1 XML (EN 16931): XRechnung, or Peppol BIS Billing abroad."""

from decimal import Decimal

from mailsim.samples.firms import Firm
from mailsim.samples.invoices import UNIT_CODES, Invoice, InvoiceLine
from mailsim.samples.xml_elements import element, leaf

XRECHNUNG = "urn:cen.eu:en16931:2017#compliant#urn:xeinkauf.de:kosit:xrechnung_3.0"
PEPPOL = "urn:cen.eu:en16931:2017#compliant#urn:fdc:peppol.eu:2017:poacc:billing:3.0"
_NAMESPACES = {
    "xmlns": "urn:oasis:names:specification:ubl:schema:xsd:Invoice-2",
    "xmlns:cac": "urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2",
    "xmlns:cbc": "urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2",
}
_VAT = element("cac:TaxScheme", leaf("cbc:ID", "VAT"))


def render_ubl(invoice: Invoice) -> bytes:
    root = element(
        "Invoice",
        leaf("cbc:CustomizationID", XRECHNUNG if invoice.supplier.country == "DE" else PEPPOL),
        leaf("cbc:ProfileID", "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0"),
        leaf("cbc:ID", invoice.number),
        leaf("cbc:IssueDate", invoice.issued),
        leaf("cbc:DueDate", invoice.due),
        leaf("cbc:InvoiceTypeCode", "380"),
        leaf("cbc:DocumentCurrencyCode", invoice.currency),
        leaf("cbc:BuyerReference", invoice.purchase_order),
        element("cac:OrderReference", leaf("cbc:ID", invoice.purchase_order)),
        element("cac:AccountingSupplierParty", _render_party(invoice.supplier)),
        element("cac:AccountingCustomerParty", _render_party(invoice.buyer)),
        element("cac:Delivery", leaf("cbc:ActualDeliveryDate", invoice.delivered)),
        _render_payment(invoice),
        _render_taxes(invoice),
        element(
            "cac:LegalMonetaryTotal",
            _render_amount("cbc:LineExtensionAmount", invoice.net, invoice),
            _render_amount("cbc:TaxExclusiveAmount", invoice.net, invoice),
            _render_amount("cbc:TaxInclusiveAmount", invoice.gross, invoice),
            _render_amount("cbc:PayableAmount", invoice.gross, invoice),
        ),
        *(_render_line(position, line, invoice) for position, line in enumerate(invoice.lines, 1)),
        **_NAMESPACES,
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{root}\n'.encode()


def _render_amount(name: str, value: Decimal, invoice: Invoice) -> str:
    return leaf(name, value, currencyID=invoice.currency)


def _render_party(firm: Firm) -> str:
    return element(
        "cac:Party",
        leaf("cbc:EndpointID", firm.email("billing"), schemeID="EM"),
        element("cac:PartyName", leaf("cbc:Name", firm.name)),
        element(
            "cac:PostalAddress",
            leaf("cbc:StreetName", firm.street),
            leaf("cbc:CityName", firm.city),
            leaf("cbc:PostalZone", firm.postcode),
            element("cac:Country", leaf("cbc:IdentificationCode", firm.country)),
        ),
        element("cac:PartyTaxScheme", leaf("cbc:CompanyID", firm.vat_id), _VAT),
        element("cac:PartyLegalEntity", leaf("cbc:RegistrationName", firm.name)),
        element(
            "cac:Contact",
            leaf("cbc:Name", firm.name),
            leaf("cbc:Telephone", firm.phone),
            leaf("cbc:ElectronicMail", firm.email("billing")),
        ),
    )


def _render_payment(invoice: Invoice) -> str:
    bank = element("cac:FinancialInstitutionBranch", leaf("cbc:ID", invoice.supplier.bic))
    return element(
        "cac:PaymentMeans",
        leaf("cbc:PaymentMeansCode", "58" if invoice.currency == "EUR" else "30"),
        leaf("cbc:PaymentID", invoice.number),
        element("cac:PayeeFinancialAccount", leaf("cbc:ID", invoice.supplier.iban), bank),
    )


def _render_taxes(invoice: Invoice) -> str:
    parts = [
        element(
            "cac:TaxSubtotal",
            _render_amount("cbc:TaxableAmount", tax.base, invoice),
            _render_amount("cbc:TaxAmount", tax.amount, invoice),
            element("cac:TaxCategory", leaf("cbc:ID", "S"), leaf("cbc:Percent", tax.rate), _VAT),
        )
        for tax in invoice.taxes
    ]
    return element("cac:TaxTotal", _render_amount("cbc:TaxAmount", invoice.vat, invoice), *parts)


def _render_line(position: int, line: InvoiceLine, invoice: Invoice) -> str:
    category = element("cac:ClassifiedTaxCategory", leaf("cbc:ID", "S"), leaf("cbc:Percent", line.rate), _VAT)
    return element(
        "cac:InvoiceLine",
        leaf("cbc:ID", position),
        leaf("cbc:InvoicedQuantity", line.quantity, unitCode=UNIT_CODES[line.unit]),
        _render_amount("cbc:LineExtensionAmount", line.amount, invoice),
        element("cac:Item", leaf("cbc:Name", line.text), category),
        element("cac:Price", _render_amount("cbc:PriceAmount", line.price, invoice)),
    )
