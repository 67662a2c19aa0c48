"""From a reading to kind, fields, checks and differences; XML takes precedence over text."""

from decimal import Decimal

import pytest

from documents.fields.test_offline_reader import BILL, NOTE
from postroom.documents import classifier
from postroom.documents.analysis import analyze
from postroom.documents.fields import einvoice_xml
from postroom.documents.fields.document_text import build_document_text
from postroom.documents.files import plain_text
from postroom.documents.files.file_reading import EmbeddedFile, FileReading
from postroom.documents.kinds.kind_registry import list_installed
from training import generated_documents

KINDS = list_installed()
INVOICE, NOTES = KINDS["invoice"], KINDS["contract-note"]

CII = """<?xml version="1.0" encoding="UTF-8"?>
<rsm:CrossIndustryInvoice xmlns:rsm="urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100"
 xmlns:ram="urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100"
 xmlns:udt="urn:un:unece:uncefact:data:standard:UnqualifiedDataType:100">
<rsm:ExchangedDocument><ram:ID>F2024/77512</ram:ID><ram:IssueDateTime>
<udt:DateTimeString format="102">20241014</udt:DateTimeString></ram:IssueDateTime></rsm:ExchangedDocument>
<rsm:SupplyChainTradeTransaction>
<ram:IncludedSupplyChainTradeLineItem><ram:SpecifiedTradeProduct><ram:Name>Broschüre</ram:Name>
</ram:SpecifiedTradeProduct>
<ram:SpecifiedLineTradeAgreement><ram:NetPriceProductTradePrice><ram:ChargeAmount>52.00</ram:ChargeAmount>
</ram:NetPriceProductTradePrice></ram:SpecifiedLineTradeAgreement>
<ram:SpecifiedLineTradeDelivery><ram:BilledQuantity unitCode="H87">20</ram:BilledQuantity>
</ram:SpecifiedLineTradeDelivery>
<ram:SpecifiedLineTradeSettlement><ram:SpecifiedTradeSettlementLineMonetarySummation>
<ram:LineTotalAmount>1040.00</ram:LineTotalAmount>
</ram:SpecifiedTradeSettlementLineMonetarySummation></ram:SpecifiedLineTradeSettlement>
</ram:IncludedSupplyChainTradeLineItem>
<ram:ApplicableHeaderTradeAgreement><ram:SellerTradeParty><ram:Name>Kieselbach Druck GmbH</ram:Name>
<ram:SpecifiedTaxRegistration><ram:ID schemeID="FC">12/345</ram:ID></ram:SpecifiedTaxRegistration>
<ram:SpecifiedTaxRegistration><ram:ID schemeID="VA">DE136695976</ram:ID></ram:SpecifiedTaxRegistration>
</ram:SellerTradeParty>
<ram:BuyerOrderReferencedDocument><ram:IssuerAssignedID>PO-7</ram:IssuerAssignedID>
</ram:BuyerOrderReferencedDocument>
</ram:ApplicableHeaderTradeAgreement>
<ram:ApplicableHeaderTradeSettlement><ram:InvoiceCurrencyCode>EUR</ram:InvoiceCurrencyCode>
<ram:SpecifiedTradeSettlementPaymentMeans><ram:PayeePartyCreditorFinancialAccount>
<ram:IBANID>DE88200800000970375700</ram:IBANID>
</ram:PayeePartyCreditorFinancialAccount></ram:SpecifiedTradeSettlementPaymentMeans>
<ram:ApplicableTradeTax><ram:CalculatedAmount>690.30</ram:CalculatedAmount>
<ram:BasisAmount>4290.00</ram:BasisAmount>
<ram:RateApplicablePercent>19</ram:RateApplicablePercent></ram:ApplicableTradeTax>
<ram:SpecifiedTradeSettlementHeaderMonetarySummation>
<ram:TaxBasisTotalAmount>4290.00</ram:TaxBasisTotalAmount>
<ram:TaxTotalAmount currencyID="CHF">650.00</ram:TaxTotalAmount>
<ram:TaxTotalAmount currencyID="EUR">690.30</ram:TaxTotalAmount>
<ram:GrandTotalAmount>4980.30</ram:GrandTotalAmount></ram:SpecifiedTradeSettlementHeaderMonetarySummation>
</ram:ApplicableHeaderTradeSettlement></rsm:SupplyChainTradeTransaction></rsm:CrossIndustryInvoice>"""
ZUGFERD_1 = (
    CII.replace("CrossIndustryInvoice", "CrossIndustryDocument")
    .replace("rsm:ExchangedDocument", "rsm:HeaderExchangedDocument")
    .replace("rsm:SupplyChainTradeTransaction", "rsm:SpecifiedSupplyChainTradeTransaction")
    .replace("ApplicableHeaderTrade", "ApplicableSupplyChainTrade")
    .replace("SettlementHeaderMonetary", "SettlementMonetary")
    .replace("RateApplicablePercent", "ApplicablePercent")
)
UBL = """<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2"
 xmlns:cac="urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2"
 xmlns:cbc="urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2">
<cbc:ID>F2024/77512</cbc:ID><cbc:IssueDate>2024-10-14</cbc:IssueDate>
<cbc:DocumentCurrencyCode>EUR</cbc:DocumentCurrencyCode>
<cac:OrderReference><cbc:ID>PO-7</cbc:ID></cac:OrderReference>
<cac:AccountingSupplierParty><cac:Party><cac:PartyName><cbc:Name>Kieselbach</cbc:Name></cac:PartyName>
<cac:PartyTaxScheme><cbc:CompanyID>DE136695976</cbc:CompanyID><cac:TaxScheme><cbc:ID>VAT</cbc:ID>
</cac:TaxScheme></cac:PartyTaxScheme>
<cac:PartyLegalEntity><cbc:RegistrationName>Kieselbach Druck GmbH</cbc:RegistrationName>
</cac:PartyLegalEntity></cac:Party>
</cac:AccountingSupplierParty>
<cac:PaymentMeans><cac:PayeeFinancialAccount><cbc:ID>DE88 2008 0000 0970 3757 00</cbc:ID>
</cac:PayeeFinancialAccount></cac:PaymentMeans>
<cac:TaxTotal><cbc:TaxAmount currencyID="EUR">690.30</cbc:TaxAmount><cac:TaxSubtotal>
<cbc:TaxableAmount>4290.00</cbc:TaxableAmount>
<cbc:TaxAmount>690.30</cbc:TaxAmount><cac:TaxCategory><cbc:Percent>19</cbc:Percent></cac:TaxCategory>
</cac:TaxSubtotal></cac:TaxTotal>
<cac:LegalMonetaryTotal><cbc:TaxExclusiveAmount>4290.00</cbc:TaxExclusiveAmount>
<cbc:TaxInclusiveAmount>4980.30</cbc:TaxInclusiveAmount></cac:LegalMonetaryTotal>
<cac:InvoiceLine><cbc:InvoicedQuantity>20</cbc:InvoicedQuantity>
<cbc:LineExtensionAmount>1040.00</cbc:LineExtensionAmount>
<cac:Item><cbc:Name>Broschüre</cbc:Name></cac:Item><cac:Price><cbc:PriceAmount>52.00</cbc:PriceAmount>
</cac:Price></cac:InvoiceLine>
</Invoice>"""


def reading(text, *xml):
    files = tuple(EmbeddedFile("factur-x.xml", each.encode()) for each in xml)
    return FileReading(plain_text.to_transcript(text), files)


@pytest.mark.parametrize("xml", [CII, ZUGFERD_1, UBL], ids=["cii", "zugferd1", "ubl"])
def test_e_invoice_xml_provides_every_field(xml):
    found = analyze(reading(BILL, xml), [INVOICE])
    values = found.values()
    assert values.pop("lines") == [
        {"description": "Broschüre", "quantity": "20", "unit_price": "52.00", "amount": "1040.00"}
    ]
    assert values.pop("vat_rates") == [{"rate": "19", "net": "4290.00", "vat": "690.30"}]
    assert values == {
        "supplier": "Kieselbach Druck GmbH",
        "vat_id": "DE136695976",
        "number": "F2024/77512",
        "issued_on": "2024-10-14",
        "currency": "EUR",
        "net": "4290.00",
        "vat": "690.30",
        "gross": "4980.30",
        "iban": "DE88200800000970375700",
        "purchase_order": "PO-7",
    }
    assert min(found.confidences.values()) > 0.99
    assert found.differences == ()
    assert found.failed_checks == ()
    assert found.fields["gross"].box is not None


def test_a_value_missing_from_the_visible_text_is_a_difference():
    found = analyze(reading(BILL.replace("4.980,30", "9.980,30"), CII), [INVOICE])
    assert [each.field for each in found.differences] == ["gross"]
    assert found.fields["gross"].value == Decimal("4980.30")


def test_xml_can_be_ignored_and_xml_alone_is_enough():
    assert analyze(reading(BILL, CII), [INVOICE], use_exact=False).source == "offline"
    alone = analyze(reading("", UBL), [INVOICE])
    assert alone.fields["number"].value == "F2024/77512"
    assert alone.differences == ()


@pytest.mark.parametrize("amount", ["NaN", "sNaN", "Infinity", "-Infinity", "1E99999", "١٢", "1_0"])
def test_a_non_numeric_amount_is_ignored(amount):
    found = analyze(reading("", UBL.replace(">4980.30<", f">{amount}<")), [INVOICE])
    assert "gross" not in found.fields


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no xml",
        b"<Invoice",
        b"<html><body/></html>",
        CII.encode()[:500],
        b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><Invoice><ID>&b;</ID></Invoice>',
        b'<?xml version="1.0"?><!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd"><Invoice><ID>1</ID></Invoice>',
        b"<Invoice>" + b"<a>" * 300 + b"</a>" * 300 + b"</Invoice>",
    ],
)
def test_hostile_or_foreign_xml_yields_nothing(content):
    assert einvoice_xml.parse_einvoice(content, name="x.xml") is None


def test_a_contract_note_is_processed_and_a_dividend_is_skipped_with_a_reason():
    found = analyze(reading(NOTE), [NOTES])
    assert found.kind is NOTES
    assert found.failed_checks == ()
    assert {"quantity x price = gross", "check digits of isin"} <= {check.name for check in found.checks}
    dividend = (
        "Talblick Depotbank AG\nDepotnummer 5874605234\nDividendengutschrift\nISIN US0378331005\n"
        "Dividende pro Stück 0,24 USD\nEx-Tag 20.03.2024\nZahlbarkeitstag 25.03.2024\nBestand 475 Stück\n"
        "Quellensteuer auf Dividende 17,10 USD\nAusschüttung 114,00 USD\nGutschrift 96,90 USD"
    )
    skipped = analyze(reading(dividend), [NOTES])
    assert skipped.kind is None
    assert skipped.skip_reason
    assert skipped.fields == {}
    assert skipped.certainty > 0.5


def test_an_invoice_is_no_contract_note_and_an_empty_page_is_skipped():
    assert "an invoice" in analyze(reading(BILL), [NOTES]).skip_reason
    assert "e-invoice" in analyze(reading(BILL, CII), [NOTES]).skip_reason
    assert analyze(reading(""), [INVOICE, NOTES]).skip_reason == "it contains no text"


def test_the_classifier_knows_documents_it_was_not_trained_on():
    fresh = generated_documents.generate_documents(40, first=880_000, hard=0.2)
    right = [max(found := classifier.predict(each.text), key=found.get) == each.kind for each in fresh]
    assert sum(right) / len(right) >= 0.95


def test_a_failed_check_explains_the_mismatch():
    found = analyze(
        reading(NOTE.replace("16.794,10", "16.000,00").replace("US0378331005", "US0378331009")), [NOTES]
    )
    assert any(words.startswith("check digits of isin") for words in found.failed_checks)
    assert any(words.startswith("quantity x price = gross") for words in found.failed_checks)


def test_the_most_likely_of_several_kinds_is_chosen():
    assert analyze(reading(BILL), [NOTES, INVOICE]).kind is INVOICE
    assert analyze(reading(NOTE), [INVOICE, NOTES]).kind is NOTES
    assert classifier.classify(build_document_text(plain_text.to_transcript("")), [INVOICE]).certainty < 0.7


@pytest.mark.parametrize(
    "change, check",
    [
        (lambda text: text, ""),
        (lambda text: text.replace("Erika", "Stornierung Kauf\nErika"), "title"),
        (lambda text: text.replace("Erika", "Dividende Unsere Referenz 7\nErika"), "title"),
        (lambda text: text + "2 Beispiel Chemie DE0005552004\n", "one isin"),
        (lambda text: text.replace("Erika", "Zürich, 20.03.2024\nErika"), "trade_date before issued_on"),
    ],
    ids=["plain", "taken back", "another paper", "two securities", "written before the trade"],
)
def test_a_self_contradicting_document_needs_review(change, check):
    found = analyze(FileReading(plain_text.to_transcript(change(NOTE))), [NOTES])
    failed = [each.split(":")[0] for each in found.failed_checks if not each.startswith("kind")]
    assert failed == ([check] if check else [])


def test_fractional_shares_may_only_be_rounded():
    small = NOTE.replace("475 ", "0,025 ").replace("35,356 EUR", "915,14 EUR")
    for worth, right in (("22,53", True), ("24,53", False)):
        text = small.replace("16.794,10", worth).replace("15.574,10", worth)
        found = analyze(FileReading(plain_text.to_transcript(text)), [NOTES])
        (check,) = [each for each in found.checks if each.name.startswith("quantity x price")]
        assert check.passed is right


def _typed(root, code, gross):
    return f"""<?xml version="1.0"?><{root}><ID>C-1</ID><{root}TypeCode>{code}</{root}TypeCode>
        <LegalMonetaryTotal><TaxInclusiveAmount>{gross}</TaxInclusiveAmount></LegalMonetaryTotal>
        <TaxTotal><TaxSubtotal><TaxableAmount>100</TaxableAmount><TaxAmount>19</TaxAmount></TaxSubtotal>
        </TaxTotal></{root}>""".encode()


@pytest.mark.parametrize(
    "root, code, gross, kept, doubt",
    [
        ("Invoice", "380", "119.00", "119.00", None),
        ("Invoice", "381", "119.00", "-119.00", None),
        ("CreditNote", "381", "119.00", "-119.00", None),
        ("CreditNote", "", "119.00", "-119.00", None),
        ("CreditNote", "381", "-119.00", "-119.00", "it is a credit note with a negative amount"),
        ("Invoice", "384", "119.00", "119.00", "it corrects another invoice (type 384)"),
    ],
)
def test_credit_note_amounts_are_negative(root, code, gross, kept, doubt):
    found = einvoice_xml.parse_einvoice(_typed(root, code, gross), name="x.xml")
    assert (f"{found.fields['gross'].value}", found.review_reason) == (kept, doubt)
    [rate] = found.fields["vat_rates"].value
    assert (rate.vat < 0) == (kept.startswith("-") and doubt is None)


def test_a_cii_credit_note_is_recognized_by_its_type():
    content = b"""<?xml version="1.0"?><CrossIndustryInvoice><ExchangedDocument><ID>C-2</ID>
        <TypeCode>381</TypeCode></ExchangedDocument><SupplyChainTradeTransaction>
        <ApplicableHeaderTradeSettlement><SpecifiedTradeSettlementHeaderMonetarySummation>
        <GrandTotalAmount>119.00</GrandTotalAmount></SpecifiedTradeSettlementHeaderMonetarySummation>
        </ApplicableHeaderTradeSettlement></SupplyChainTradeTransaction></CrossIndustryInvoice>"""
    assert str(einvoice_xml.parse_einvoice(content, name="x.xml").fields["gross"].value) == "-119.00"


@pytest.mark.parametrize(
    "split",
    ["<!-- a comment -->", "<?instruction of somebody?>", "<![CDATA[]]>"],
    ids=["comment", "pi", "cdata"],
)
def test_comments_do_not_truncate_xml_values(split):
    found = analyze(reading(BILL, UBL.replace(">4980.30<", f">4{split}980.30<")), [INVOICE])
    assert found.fields["gross"].value == Decimal("4980.30")
    assert found.failed_checks == ()


def test_an_xml_value_with_child_elements_is_ignored():
    found = einvoice_xml.parse_einvoice(UBL.replace(">4980.30<", "><b>4</b>980.30<").encode(), name="x.xml")
    assert "gross" not in found.fields


def test_a_currency_other_than_the_visible_one_is_a_difference():
    in_dollars = UBL.replace(">EUR<", ">USD<")
    found = analyze(reading(BILL, in_dollars), [INVOICE])
    assert [each.field for each in found.differences] == ["currency"]
    both = f"{BILL}Wir liefern auch gegen USD."
    assert [each.field for each in analyze(reading(both, in_dollars), [INVOICE]).differences] == ["currency"]
    unnamed = BILL.replace("EUR", "").replace("€", "")
    assert analyze(reading(unnamed, in_dollars), [INVOICE]).differences == ()


@pytest.mark.parametrize(
    "was, put, field",
    [
        (">EUR<", ">BANANA<", "currency"),
        ("DE136695976", "none", "vat_id"),
        ("DE88 2008 0000 0970 3757 00", "0970375700", "iban"),
    ],
)
def test_a_malformed_xml_value_needs_review(was, put, field):
    found = analyze(reading("", UBL.replace(was, put)), [INVOICE])
    assert any(words.startswith(f"format of {field}: ") for words in found.failed_checks)


def test_isin_and_trade_wording_make_an_unknown_document_a_contract_note():
    strange = (
        "DepotReport 30. Mai 2024\nSteuerliche Informationen Einzeltransaktion\n30.04.2024: Gesamtverkauf\n"
        "Name World Index Fund (A1XB5U / US0378331005)\nAnteile 2,156\nAbrechnungspreis 23,3600 EUR\n"
        "Abrechnungsbetrag 50,30 EUR\nEntgelt 0,06 EUR\nSteuerjahr 2024\n" + "Stand vorher: 0,00 EUR\n" * 9
    )
    known = analyze(reading(strange), [INVOICE, NOTES])
    assert known.kind is NOTES
    assert known.fields["trade_date"].value.isoformat() == "2024-04-30"
    assert analyze(reading(strange), [INVOICE]).kind is None
