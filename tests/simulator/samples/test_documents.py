"""Documents contain the values of their facts, and the facts are consistent."""

import email
import email.policy
import io
import re
import zipfile
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from xml.etree import ElementTree as ET

import pytest
from PIL import Image
from pypdf import PdfReader
from pypdf.errors import PyPdfError

from example_counts import examples
from mailsim import samples
from mailsim.samples.check_digits import is_valid_iban, is_valid_isin
from mailsim.samples.localized_formats import format_long_date, format_number, format_short_date

LANGUAGES = ("de", "en", "fr")
SEEDS = range(examples(6))
CII = "{urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100}"
UBL = "{urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2}"


def files(spec: samples.MessageSpec) -> dict[str, bytes]:
    message = email.message_from_bytes(samples.write_message(spec), policy=email.policy.default)
    found: dict[str, bytes] = {}
    for part in message.walk():
        if part.get_filename() and not part.is_multipart():
            content = part.get_payload(decode=True)
            assert isinstance(content, bytes)
            found[part.get_filename() or ""] = content
    return found


def only_file(spec: samples.MessageSpec) -> bytes:
    (content,) = files(spec).values()
    return content


def text_of(pdf: bytes) -> str:
    text = "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages)
    return text.replace("\N{NO-BREAK SPACE}", " ")


def shown(amount: str, language: str) -> str:
    return format_number(Decimal(amount), language).replace("\N{NO-BREAK SPACE}", " ")


def cents(value: Decimal) -> Decimal:
    return value.quantize(Decimal("0.01"), ROUND_HALF_UP)


def is_printed(day: str, language: str, text: str) -> bool:
    wanted = date.fromisoformat(day)
    return format_short_date(wanted, language) in text or format_long_date(wanted, language) in text


@pytest.mark.examples
@pytest.mark.parametrize("layout", samples.list_variants("invoice"))
@pytest.mark.parametrize("language", LANGUAGES)
def test_an_invoice_prints_its_facts(layout: str, language: str):
    for seed in SEEDS:
        spec = samples.MessageSpec(seed=seed, kind="invoice", variant=layout, language=language)
        facts, text = samples.get_document_facts(spec), text_of(only_file(spec))
        for key in ("number", "supplier", "buyer", "purchase_order", "customer", "supplier_vat_id", "bic"):
            assert str(facts[key]) in text, key
        for key in ("net", "vat", "gross"):
            assert shown(str(facts[key]), language) in text, key
        assert str(facts["iban"]) in text.replace(" ", "")
        assert is_printed(str(facts["date"]), language, text)
        assert is_printed(str(facts["due"]), language, text)
        assert str(facts["number"]) in spec.title


@pytest.mark.parametrize("language", LANGUAGES)
def test_amounts_of_an_invoice_add_up_and_check_digits_are_valid(language: str):
    for seed in range(200):
        facts = samples.get_document_facts(samples.MessageSpec(seed=seed, kind="invoice", language=language))
        lines = facts["lines"]
        assert isinstance(lines, list)
        for line in lines:
            assert cents(Decimal(line["quantity"]) * Decimal(line["price"])) == Decimal(line["amount"])
        bases: dict[str, Decimal] = {}
        for line in lines:
            bases[line["rate"]] = bases.get(line["rate"], Decimal(0)) + Decimal(line["amount"])
        assert facts["vat_rates"] == {
            rate: str(cents(base * Decimal(rate) / 100)) for rate, base in bases.items()
        }
        assert Decimal(str(facts["net"])) == sum(bases.values())
        assert Decimal(str(facts["vat"])) == sum(map(Decimal, facts["vat_rates"].values()))
        assert Decimal(str(facts["gross"])) == Decimal(str(facts["net"])) + Decimal(str(facts["vat"]))
        assert is_valid_iban(str(facts["iban"]))


def test_invoices_vary_in_currency_and_length():
    found = [
        samples.get_document_facts(samples.MessageSpec(seed=seed, kind="invoice")) for seed in range(200)
    ]
    assert {facts["currency"] for facts in found} == {"EUR", "CHF", "GBP", "USD"}
    assert {len(str(facts["lines"])) > 3000 for facts in found} == {True, False}


@pytest.mark.examples
@pytest.mark.parametrize("layout", samples.list_variants("contract-note"))
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_contract_note_prints_its_facts(layout: str, language: str):
    for seed in SEEDS:
        spec = samples.MessageSpec(seed=seed, kind="contract-note", variant=layout, language=language)
        facts, text = samples.get_document_facts(spec), text_of(only_file(spec))
        for key in (
            "number",
            "order_number",
            "account",
            "client",
            "isin",
            "security",
            "ticker",
            "venue",
            "trade_time",
        ):
            assert str(facts[key]) in text, key
        assert str(facts["broker"]).lower() in text.lower()
        amounts = [facts["quantity"], facts["price"], facts["gross"], facts["value"], facts["net"]]
        amounts += [*facts["fees"].values(), *facts["taxes"].values()]
        for amount in amounts:
            assert shown(str(amount), language) in text
        assert is_printed(str(facts["trade_date"]), language, text)
        assert is_printed(str(facts["settlement_date"]), language, text)
        assert str(facts["number"]) in spec.title


@pytest.mark.parametrize("layout", samples.list_variants("contract-note"))
def test_amounts_of_a_contract_note_add_up_and_check_digits_are_valid(layout: str):
    for seed in range(100):
        facts = samples.get_document_facts(
            samples.MessageSpec(seed=seed, kind="contract-note", variant=layout)
        )
        gross, value, net = (Decimal(str(facts[key])) for key in ("gross", "value", "net"))
        assert cents(Decimal(str(facts["quantity"])) * Decimal(str(facts["price"]))) == gross
        assert cents(gross * Decimal(str(facts["exchange_rate"]))) == value
        charges = sum(map(Decimal, [*facts["fees"].values(), *facts["taxes"].values()]))
        assert net == (value + charges if facts["direction"] == "buy" else value - charges)
        assert net > 0
        assert is_valid_isin(str(facts["isin"]))
        assert str(facts["settlement_date"]) > str(facts["trade_date"])
        assert date.fromisoformat(str(facts["settlement_date"])).weekday() < 5


def test_contract_notes_include_sales_taxes_and_foreign_currencies():
    found = [
        samples.get_document_facts(samples.MessageSpec(seed=seed, kind="contract-note"))
        for seed in range(300)
    ]
    assert {facts["direction"] for facts in found} == {"buy", "sell"}
    assert len({facts["broker"] for facts in found}) == 6
    assert {name for facts in found for name in facts["taxes"]} == {
        "capital_gains_tax",
        "solidarity_tax",
        "stamp_duty",
        "transaction_tax",
    }
    assert any(facts["exchange_rate"] != "1" for facts in found)


@pytest.mark.parametrize("profile", ["en16931", "basic"])
def test_factur_x_embeds_the_invoice_as_xml(profile: str):
    spec = samples.MessageSpec(seed=4, kind="invoice-facturx", variant=profile, language="de")
    facts, pdf = samples.get_document_facts(spec), only_file(spec)
    reader = PdfReader(io.BytesIO(pdf))
    (xml,) = reader.attachments["factur-x.xml"]
    root = ET.fromstring(xml)
    summation = root.find(f".//{CII}SpecifiedTradeSettlementHeaderMonetarySummation")
    assert summation is not None
    assert summation.findtext(f"{CII}GrandTotalAmount") == facts["gross"]
    assert summation.findtext(f"{CII}TaxBasisTotalAmount") == facts["net"]
    assert summation.findtext(f"{CII}TaxTotalAmount") == facts["vat"]
    assert root.findtext(f".//{CII}IBANID") == facts["iban"]
    (specification,) = reader.root_object["/AF"]
    assert specification.get_object()["/AFRelationship"] == "/Alternative"
    metadata = reader.root_object["/Metadata"].get_data().decode()
    level = {"en16931": "EN 16931", "basic": "BASIC"}[profile]
    assert f'fx:ConformanceLevel="{level}"' in metadata
    assert 'pdfaid:part="3"' in metadata
    assert shown(str(facts["gross"]), "de") in text_of(pdf)


@pytest.mark.parametrize("syntax", ["ubl", "cii"])
def test_xrechnung_is_attached_with_a_pdf(syntax: str):
    spec = samples.MessageSpec(seed=4, kind="invoice-xrechnung", variant=syntax, language="de")
    facts, found = samples.get_document_facts(spec), files(spec)
    assert sorted(name.rpartition(".")[2] for name in found) == ["pdf", "xml"]
    root = ET.fromstring(next(content for name, content in found.items() if name.endswith(".xml")))
    names = {"ubl": f".//{UBL}PayableAmount", "cii": f".//{CII}DuePayableAmount"}
    assert root.findtext(names[syntax]) == facts["gross"]
    assert "xrechnung_3.0" in ET.tostring(root, encoding="unicode")


@pytest.mark.parametrize("kind", ["invoice-scan", "contract-note-scan"])
@pytest.mark.parametrize("form", ["png", "jpeg", "tiff"])
def test_a_scan_is_an_image_of_a_page(kind: str, form: str):
    spec = samples.MessageSpec(seed=1, kind=kind, variant=form)
    picture = Image.open(io.BytesIO(only_file(spec)))
    assert picture.format == form.upper()
    assert picture.size == (1653, 2339)
    grey = picture.convert("L").histogram()
    assert sum(grey[200:]) > 0.85 * sum(grey)
    assert sum(grey[:100]) > 0.002 * sum(grey)
    assert samples.get_document_facts(spec)["number"]


def test_a_scanned_pdf_has_images_and_no_text():
    for kind in ("invoice-scan", "contract-note-scan"):
        reader = PdfReader(io.BytesIO(only_file(samples.MessageSpec(seed=1, kind=kind, variant="pdf"))))
        assert len(reader.pages[0].images) == 1
        assert reader.pages[0].extract_text() == ""


@pytest.mark.parametrize("shape", ["flat", "nested"])
def test_an_archive_contains_the_invoices_that_its_facts_list(shape: str):
    spec = samples.MessageSpec(seed=5, kind="invoice-zip", variant=shape)
    archive = zipfile.ZipFile(io.BytesIO(only_file(spec)))
    if shape == "nested":
        archive = zipfile.ZipFile(io.BytesIO(archive.read("2024/Belege.zip")))
    texts = [text_of(archive.read(name)) for name in archive.namelist()]
    documents = samples.get_document_facts(spec)["documents"]
    assert isinstance(documents, list)
    assert len(documents) == len(texts) > 1
    assert all(facts["number"] in text for facts, text in zip(documents, texts, strict=True))


def test_a_forwarded_invoice_is_inside_the_attached_message():
    spec = samples.MessageSpec(seed=6, kind="invoice-forwarded")
    message = email.message_from_bytes(samples.write_message(spec), policy=email.policy.default)
    enclosed = next(message.iter_attachments()).get_content()
    pdf = next(enclosed.iter_attachments()).get_content()
    assert str(samples.get_document_facts(spec)["number"]) in text_of(pdf)
    assert enclosed["From"].addresses[0].addr_spec.startswith("billing@")


def test_a_message_without_a_document_has_no_facts():
    assert samples.get_document_facts(samples.MessageSpec(kind="newsletter")) == {}


def test_file_names_follow_the_language():
    names = {
        language: next(iter(files(samples.MessageSpec(seed=2, kind="invoice", language=language))))
        for language in LANGUAGES
    }
    assert [re.split("_", names[language])[0] for language in LANGUAGES] == ["Rechnung", "Invoice", "Facture"]


@pytest.mark.parametrize("variant", samples.list_variants("invoice-odd"))
def test_an_unusual_invoice_is_readable_if_its_facts_say_so(variant: str):
    spec = samples.MessageSpec(seed=8, kind="invoice-odd", variant=variant)
    facts, content = samples.get_document_facts(spec), only_file(spec)
    if facts["readable"]:
        assert str(facts["number"]) in text_of(content)
    else:
        with pytest.raises(PyPdfError):
            text_of(content)


def test_the_password_in_the_message_opens_a_locked_invoice():
    spec = samples.MessageSpec(seed=8, kind="invoice-odd", variant="locked", language="de")
    message = email.message_from_bytes(samples.write_message(spec), policy=email.policy.default)
    body = message.get_body(("plain",))
    assert body is not None
    password = body.get_content().partition("Passwort: ")[2].strip()
    reader = PdfReader(io.BytesIO(only_file(spec)), password=password)
    assert str(samples.get_document_facts(spec)["number"]) in reader.pages[0].extract_text()


@pytest.mark.parametrize("variant", samples.list_variants("other-document"))
def test_a_lookalike_is_not_an_invoice_and_names_its_supplier(variant: str):
    spec = samples.MessageSpec(seed=2, kind="other-document", variant=variant)
    facts = samples.get_document_facts(spec)
    assert facts["document"] == variant
    assert str(facts["supplier"]) in text_of(only_file(spec))
