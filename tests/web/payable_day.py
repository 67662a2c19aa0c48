"""The files of a day of accounts payable: what the clerk does with each, and what must be left of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum

from documents.corpus.pages import InvoicePage
from documents.files.sample_files import pdf
from scenarios.document_postroom import bill
from scenarios.invoice_writer import OTHER_IBAN, write_invoice, write_text
from scenarios.test_document_files import join


class Act(Enum):
    """What the clerk does with a document or its record."""

    NOTHING = "nothing"
    CONFIRM = "confirm"
    OVERRIDE = "confirm despite a failed check"
    CORRECT = "correct"
    NEGATE = "correct to negative amounts"
    REJECT = "reject"
    SPLIT = "split"
    VOID = "void"
    RENUMBER = "renumber"


_AUTOMATIC = ("DOCUMENT_TAKEN_IN", "DOCUMENT_COMPLETED", "DOCUMENT_ARCHIVED")
_IN_REVIEW = ("DOCUMENT_TAKEN_IN", "DOCUMENT_NEEDS_REVIEW")
_COMPLETED = ("DOCUMENT_COMPLETED", "DOCUMENT_ARCHIVED")
# The ledger's events of a document, in their order.
EVENTS = {
    Act.NOTHING: _AUTOMATIC,
    Act.CONFIRM: (*_IN_REVIEW, "REVIEW_CONFIRMED", *_COMPLETED),
    Act.OVERRIDE: (*_IN_REVIEW, "REVIEW_CONFIRMED", *_COMPLETED),
    Act.CORRECT: (*_IN_REVIEW, "REVIEW_CORRECTED", *_COMPLETED),
    Act.NEGATE: (*_IN_REVIEW, "REVIEW_CORRECTED", *_COMPLETED),
    Act.REJECT: (*_IN_REVIEW, "REVIEW_REJECTED", "DOCUMENT_SKIPPED"),
    Act.SPLIT: (*_IN_REVIEW, "DOCUMENT_COMPLETED", "DOCUMENT_SPLIT", "DOCUMENT_ARCHIVED"),
    Act.VOID: (*_AUTOMATIC, "DOCUMENT_SKIPPED"),
    Act.RENUMBER: (*_AUTOMATIC, "DOCUMENT_ARCHIVED"),
}


@dataclass(frozen=True)
class DayFile:
    """A file, and number and gross amount of each record that it leads to. Copies lead to the same record."""

    name: str
    content: bytes
    records: tuple[tuple[str, str], ...]
    act: Act = Act.NOTHING


def write_day(today: date) -> tuple[list[DayFile], list[DayFile]]:
    """The files of the morning, which all confirm themselves, and those of the afternoon."""
    morning = list(_write_right(today, range(1, 27)))
    morning[3] = DayFile(morning[3].name, morning[3].content, morning[3].records, Act.VOID)
    [(_, gross)] = morning[4].records
    morning[4] = DayFile(morning[4].name, morning[4].content, (("R-5A", gross),), Act.RENUMBER)
    again, copied = morning[0], morning[1]
    [(number, gross)] = copied.records
    copy = write_invoice("en", number, today, gross=gross, after="Copy")
    return morning, [
        DayFile("again.pdf", again.content, again.records),
        DayFile("copy.pdf", copy, copied.records),
        DayFile("iban.pdf", _invoice(today, "R-50", "119.00", iban=OTHER_IBAN), (("R-50", "119.00"),),
                Act.OVERRIDE),
        DayFile("two.pdf", join(_invoice(today, "R-51", "111.00"), _invoice(today, "R-52", "112.00")),
                (("R-51", "111.00"), ("R-52", "112.00")), Act.SPLIT),
        DayFile("misprint.pdf", _write_misprint(today, "R-53"), (("R-53", "119.00"),), Act.CORRECT),
        DayFile("foreign.pdf", _invoice(today, "R-54", "118.00", after=_uncertain(today)), (), Act.REJECT),
        DayFile("minus.pdf", _write_credit(today, "20419", -1), (("20419", "-150.00"),), Act.OVERRIDE),
        DayFile("credit.pdf", _write_credit(today, "20420", 1), (("20420", "-150.00"),), Act.NEGATE),
        DayFile("credit.xml", bill("C-1", "119.00", name="CreditNote", code="381"), (("C-1", "-119.00"),)),
        *_write_right(today, range(60, 65), after=_uncertain(today), act=Act.CONFIRM),
    ]  # fmt: skip


def _invoice(today: date, number: str, gross: str, **more: str) -> bytes:
    return write_invoice("en", number, today, gross=gross, **more)


def _uncertain(today: date) -> str:
    """A second due date, for which a person must look at the invoice."""
    return f"Payable by {today + timedelta(days=20):%d %B %Y}"


def _write_right(today: date, numbers: range, *, act: Act = Act.NOTHING, **more: str) -> Iterator[DayFile]:
    for number in numbers:
        name, gross = f"R-{number}", f"{100 + number}.{number:02}"
        yield DayFile(f"{name}.pdf", _invoice(today, name, gross, **more), ((name, gross),), act)


def _write_misprint(today: date, number: str) -> bytes:
    """An invoice over 119.00 whose total is printed as 191.00."""
    return _write_lines(write_text("en", number, today).replace("Total EUR 119.00", "Total EUR 191.00"))


def _write_credit(today: date, number: str, sign: int) -> bytes:
    """A credit note over 150.00, printed with a minus or without."""
    page = InvoicePage(
        number=number, issued=today, due=None, is_credit=True, sign=sign, hides_lines=True,
        notation="-{amount} {currency}" if sign < 0 else "{amount} {currency}",
    )  # fmt: skip
    return _write_lines(page.write())


def _write_lines(text: str) -> bytes:
    return pdf([(60, 780 - 18 * row, line) for row, line in enumerate(text.splitlines())])
