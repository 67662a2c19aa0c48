"""A language model's values are rated by the text, and by the checks that they decide."""

from decimal import Decimal

from postroom.documents.fields.answer_rating import rate_answer
from postroom.documents.fields.document_text import build_document_text
from postroom.documents.fields.extraction_result import FieldExtraction
from postroom.documents.files.plain_text import to_transcript
from postroom.documents.kinds.contract_note import CONTRACT_NOTE, ContractNote

TEXT = build_document_text(to_transcript("Kurswert 1.234,56 EUR\nAusmachender Betrag 1.244,56 EUR"))


def rate(net):
    answer = ContractNote(direction="buy", gross=Decimal("1234.56"), net=net)
    return rate_answer(answer, FieldExtraction({}), TEXT, CONTRACT_NOTE).fields


def test_a_passed_check_raises_the_confidence_of_the_fields_that_decide_it():
    alone, confirmed = rate(None), rate(Decimal("1244.56"))
    assert confirmed["gross"].confidence > alone["gross"].confidence
    assert confirmed["direction"].confidence > alone["direction"].confidence
