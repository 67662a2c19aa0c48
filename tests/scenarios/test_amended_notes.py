"""Contract notes that follow another one for the same trade, in five languages: none is booked twice."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import product

import pytest

from documents.corpus.judgement import choose
from documents.corpus.pages import LANGUAGES, NotePage
from postroom.documents.fields.check_digits import is_valid_isin
from postroom.model import DocumentState
from scenarios.document_postroom import TODAY

FOLLOWING = {
    "another quantity": {"quantity": Decimal(90)},
    "another price": {"price": Decimal("181.00")},
    "another fee": {"fee": Decimal("12.00")},
    "another quantity and price": {"quantity": Decimal(60), "price": Decimal("179.50")},
    "an amended title": {"title": "amended"},
    "a cancelled title": {"title": "cancelled"},
    "an amended title and another price": {"title": "amended", "price": Decimal("181.00")},
}
CASES = choose(list(product(FOLLOWING, LANGUAGES)))


def make_isin(number):
    body = f"US{number:09d}"
    return next(f"{body}{digit}" for digit in range(10) if is_valid_isin(f"{body}{digit}"))


def write_pair(number, change, language):
    first = NotePage(
        language,
        number=f"CN{1001 + number}",
        isin=make_isin(378331 + number),
        traded=TODAY.date(),
        settled=TODAY.date() + timedelta(days=2),
    )
    return [page.write().encode() for page in (first, replace(first, **FOLLOWING[change]))]


@pytest.mark.examples
async def test_a_note_that_follows_another_one_is_for_a_person(document_room):
    written = [note for number, case in enumerate(CASES) for note in write_pair(number, *case)]
    found = await document_room.read(*written, pipeline="contract-notes", suffix="txt")
    states = {
        case: (first.state, second.state)
        for case, first, second in zip(CASES, found[::2], found[1::2], strict=True)
    }
    assert states == dict.fromkeys(CASES, (DocumentState.COMPLETED, DocumentState.NEEDS_REVIEW))
    [(count,)] = await document_room.rows("SELECT count(*) FROM records")
    assert count == len(CASES)
