"""Texts made to keep the reader busy: the work is limited, and the document needs review with a reason."""

import pytest

from postroom.documents.analysis import analyze
from postroom.documents.fields import document_text
from postroom.documents.fields.document_text import build_document_text
from postroom.documents.files import plain_text
from postroom.documents.files.file_reading import FileReading
from postroom.documents.kinds.invoice import INVOICE

BILL = """Invoice
Example Supplies Ltd
Invoice number: 4711
Invoice date: 3 May 2024
Net amount 100.00 EUR
VAT 19 % 19.00 EUR
Total 119.00 EUR"""
NUMBERS = " ".join(f"{each}.{each % 100:02}" for each in range(1, 130))


def read(text):
    return analyze(FileReading(plain_text.to_transcript(text)), [INVOICE])


def test_a_usual_invoice_is_within_the_limits():
    found = read(BILL)
    assert str(found.fields["gross"].value) == "119.00"
    assert found.failed_checks == ()


@pytest.mark.parametrize(
    "attack, reason",
    [
        (NUMBERS, "density: a line of the text has more than 120 numbers, dates and codes"),
        ("net vat total " * 40, "density: a line of the text has more than 60 labels"),
        (
            "\n".join(["net 1.00 vat 2.00 total 3.00 " * 12] * 8),
            "density: the text has too many labels and values close together",
        ),
    ],
    ids=["numbers", "labels", "labels and values"],
)
def test_a_text_that_is_too_dense_needs_review_and_has_no_fields(attack, reason):
    found = read(f"{BILL}\n{attack}")
    assert reason in found.failed_checks
    assert found.fields == {}


def test_a_line_that_is_too_long_is_wrapped():
    document = build_document_text(plain_text.to_transcript("word " * 300))
    assert [len(line.words) for line in document.lines] == [200, 100]
    assert document.excess == ""


def test_a_word_that_is_too_long_is_left_out_and_the_document_needs_review():
    found = read(f"{BILL}\n{'x' * 1001}")
    assert "length: words of more than 1,000 characters were left out" in found.failed_checks


@pytest.mark.parametrize("line", ["word " * 190, "x"])
def test_a_text_that_is_too_long_is_cut_and_needs_review(line):
    lines = document_text.MAX_LINES if len(line) == 1 else document_text.MAX_CHARACTERS // len(line)
    document = build_document_text(plain_text.to_transcript("\n".join([line] * (lines + 100))))
    assert len(document.lines) <= lines + 1
    assert "too long" in document.excess
