"""Several invoices in one file: recognized by their numbers, split only if everything agrees."""

from datetime import date

import pytest

from documents.files.sample_files import pdf
from postroom.documents import part_detection
from postroom.documents.files import pdf as reader
from postroom.documents.kinds.contract_note import CONTRACT_NOTE
from postroom.documents.kinds.invoice import INVOICE
from postroom.documents.page_ranges import format_ranges
from postroom.documents.sandbox.file_limits import FileLimits
from scenarios.invoice_writer import write_text

DAY = date(2026, 3, 2)


def read(*pages):
    content = pdf(
        *([(60, 780 - 18 * row, line) for row, line in enumerate(text.splitlines())] for text in pages)
    )
    return reader.read(content, FileLimits()).reading.transcript


def invoice(number, after="", gross="119.00"):
    return write_text("en", number, DAY, gross=gross, after=after)


FIRST, SECOND = invoice("R-1001", "Page 1/1"), invoice("R-1002", "Page 1/1", "238.00")
ATTACHED = "Terms of delivery\nGoods remain our property until they are paid.\n"


def test_invoices_that_number_their_own_pages_are_split():
    found = part_detection.find_parts(read(FIRST, SECOND), INVOICE)
    assert found is not None
    assert (format_ranges(found.ranges), found.is_certain) == ("1,2", True)
    assert found.check.words == "2 invoices? Pages 1,2 have the numbers R-1001, R-1002"


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(invoice("R-1002"), id="no page number"),
        pytest.param(invoice("R-1002", "Page 1/2"), id="a page is missing"),
        pytest.param(SECOND.replace("Total EUR 238", "Total EUR 239"), id="totals do not add up"),
        pytest.param(SECOND.replace("Supplier: Xenon GmbH", "").replace("Xenon GmbH", ""), id="no supplier"),
    ],
)
def test_anything_missing_asks_a_person(second):
    found = part_detection.find_parts(read(FIRST, second), INVOICE)
    assert found is not None
    assert not found.is_certain


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param([FIRST], id="one page"),
        pytest.param([FIRST, FIRST], id="a copy of the same invoice"),
        pytest.param([FIRST, ATTACHED], id="an attachment"),
        pytest.param([FIRST, ATTACHED + "Invoice number: R-1002"], id="a reference to another invoice"),
        pytest.param([FIRST, invoice("R-1002", "Page 2/2")], id="a later page of the same document"),
    ],
)
def test_one_invoice_is_not_split(pages):
    assert part_detection.find_parts(read(*pages), INVOICE) is None


def test_other_kinds_are_not_split():
    assert part_detection.find_parts(read(FIRST, SECOND), CONTRACT_NOTE) is None
