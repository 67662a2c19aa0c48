"""What pdfium finds in a text layer becomes words with their places, in visual lines."""

import pytest

from documents.reading import samples
from postroom.documents import pdf
from postroom.documents.limits import Limits


def read(content):
    return pdf.read(content, Limits())


def test_a_line_is_whole_however_its_words_were_drawn():
    draft = read(
        samples.pdf([(400, 700, "119,00 €"), (50, 690, "Zahlbar sofort"), (50, 700, "Gesamtbetrag")])
    )
    assert draft.reading.transcript.text == "Gesamtbetrag 119,00 €\nZahlbar sofort"
    assert draft.blind == ()


def test_words_stand_where_a_person_sees_them():
    [word] = read(samples.pdf([(59.5, 421, "Rechnung")])).reading.transcript.words
    assert word.box.left == pytest.approx(0.1, abs=0.005)
    assert word.box.top < 0.5 < word.box.bottom
    assert (word.page, word.line) == (0, 0)
