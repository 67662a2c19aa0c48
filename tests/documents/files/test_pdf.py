"""The text layer of a PDF becomes words with positions, in visual lines."""

import io

import pytest
from pypdf import PdfReader

from documents.files import hostile_files, sample_files
from postroom.documents.files import pdf
from postroom.documents.page_ranges import parse_ranges
from postroom.documents.sandbox.file_limits import FileLimits
from postroom.errors import UnreadableFile

TOTAL = [(400, 700, "119,00 €"), (50, 690, "Zahlbar sofort"), (50, 700, "Gesamtbetrag")]


def read(content, **limits):
    return pdf.read(content, FileLimits(**limits))


def words(content):
    return read(content).reading.transcript.words


def test_a_line_is_complete_in_any_drawing_order():
    draft = read(sample_files.pdf(TOTAL))
    assert draft.reading.transcript.text == "Gesamtbetrag 119,00 €\nZahlbar sofort"
    assert draft.reading.transcript.method == "text_layer"
    assert draft.pages_without_text == ()


def test_word_boxes_match_the_visible_page():
    [word] = words(sample_files.pdf([(59.5, 421, "Rechnung")]))
    assert word.box.left == pytest.approx(0.1, abs=0.005)
    assert word.box.right == pytest.approx(0.1 + 53 / 595, abs=0.01)
    assert word.box.top < 0.5 < word.box.bottom
    assert (word.page, word.line) == (0, 0)


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
def test_a_rotated_page_is_read_as_shown(rotate):
    content = sample_files.pdf([(60, 780 if rotate % 180 == 0 else 535, "Oben links")], rotate=rotate)
    transcript = read(content).reading.transcript
    assert transcript.text == "Oben links"
    # The text lies sideways on a page that is shown so, and the page is turned back for reading.
    assert transcript.pages[0].rotation == -rotate % 360
    assert transcript.words[0].box.left < 0.15
    assert transcript.words[0].box.bottom < 0.15


@pytest.mark.parametrize("drawn", [90, 180, 270])
def test_text_drawn_at_an_angle_is_read_upright(drawn):
    content = sample_files.pdf([(40, 100, "Betrag"), (200, 100, "119,00"), (40, 80, "Summe")], drawn=drawn)
    transcript = read(content).reading.transcript
    assert transcript.text == "Betrag 119,00\nSumme"
    page = transcript.pages[0]
    assert page.rotation == drawn
    assert (page.width > page.height) is (drawn != 180)


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
def test_boxes_match_the_rendered_page(rotate):
    """Where a word's box is, the drawn page is dark; that holds for every rotation."""
    content = sample_files.pdf([(60, 500, "Rechnung"), (300, 90, "1.234,56")], rotate=rotate)
    transcript = read(content).reading.transcript
    assert transcript.text == "Rechnung\n1.234,56"
    turned = transcript.pages[0].rotation
    sheet = pdf.render(content, FileLimits(), page=0, fit_within=(800, 800), rotation=turned).convert("L")
    assert (sheet.width > sheet.height) is (transcript.pages[0].width > transcript.pages[0].height)
    for word in transcript.words:
        box = word.box
        corners = (box.left, box.top, box.right, box.bottom)
        sizes = (sheet.width, sheet.height) * 2
        part = sheet.crop(tuple(round(at * size) for at, size in zip(corners, sizes, strict=True)))
        assert part.getextrema()[0] < 100
        sheet.paste(255, tuple(round(at * size) for at, size in zip(corners, sizes, strict=True)))
    assert sheet.getextrema()[0] > 100  # nothing else was dark


def test_german_and_french_characters_are_preserved():
    text = "Größe Übermaß Straße Français déjà reçu à l'échéance où 12,50 €"
    assert read(sample_files.pdf([(50, 700, text)])).reading.transcript.text == text


def test_columns_side_by_side_share_their_lines():
    left = [(50, 700 - 14 * n, f"links{n}") for n in range(5)]
    right = [(350, 700 - 14 * n, f"rechts{n}") for n in range(5)]
    text = read(sample_files.pdf([*left, *right])).reading.transcript.text
    assert text.splitlines() == [f"links{n} rechts{n}" for n in range(5)]


def test_characters_of_different_sizes_on_one_baseline_are_one_line():
    content = hostile_files.page(
        hostile_files.stream(b"BT/F 24 Tf 5 60 Td(Big)Tj ET BT/F 9 Tf 60 60 Td(small)Tj ET"),
        box=b"0 0 120 160",
    )
    assert read(content).reading.transcript.text == "Big small"


def test_a_word_drawn_twice_for_bold_is_read_once():
    assert [word.text for word in words(sample_files.pdf([(50, 700, "Summe"), (50.3, 700, "Summe")]))] == [
        "Summe"
    ]


def test_text_outside_the_page_is_not_read():
    assert [
        word.text
        for word in words(sample_files.pdf([(50, 700, "sichtbar"), (50, 900, "oben"), (-99, 5, "x")]))
    ] == ["sichtbar"]


def test_lone_surrogates_and_control_characters_are_dropped():
    assert pdf._clean_word("a\ud83db") == "ab"
    assert pdf._clean_word("a\ud83d\ude00b") == "a\U0001f600b"
    assert pdf._clean_word("Ge\x02bühr\x07") == "Ge-bühr"
    assert pdf._clean_word("oﬃziell") == "offiziell"
    assert pdf._clean_word("Gro\u0308ße") == "Größe"


def test_form_field_values_are_read_with_their_labels():
    assert (
        read(sample_files.form("Invoice number:", "RE-4711")).reading.transcript.text
        == "Invoice number: RE-4711"
    )


def test_lines_are_numbered_per_page():
    transcript = read(
        sample_files.pdf([(50, 700, "eins"), (50, 600, "zwei")], [(50, 700, "drei")])
    ).reading.transcript
    assert [(word.text, word.page, word.line) for word in transcript.words] == [
        ("eins", 0, 0),
        ("zwei", 0, 1),
        ("drei", 1, 0),
    ]


def test_embedded_files_are_extracted_within_limits():
    content = sample_files.with_files(sample_files.pdf(TOTAL), factur_x_xml=b"<a/>", note_txt=b"n" * 1000)
    embedded = read(content).reading.embedded
    assert {each.name: each.content for each in embedded} == {
        "factur.x.xml": b"<a/>",
        "note.txt": b"n" * 1000,
    }
    assert [each.name for each in read(content, embedded_bytes=500).reading.embedded] == ["factur.x.xml"]
    assert len(read(content, embedded_files=1).reading.embedded) == 1


def test_a_scanned_page_needs_ocr_and_an_empty_page_does_not():
    scan = sample_files.scanned_pdf(sample_files.picture(sample_files.page_pdf()), note="Scanned by somebody")
    assert read(scan).pages_without_text == (0,)
    assert read(sample_files.pdf([])).pages_without_text == ()


def test_a_font_without_a_character_map_needs_ocr():
    page = hostile_files.page(
        hostile_files.stream(b"BT/F 9 Tf 5 60 Td(" + b"\x01\x03\x04 " * 50 + b")Tj ET"),
        resources=b"/Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding"
        b"<</Type/Encoding/Differences[1/g01/g02/g03/g04]>>>>>>",
    )
    assert read(page).pages_without_text == (0,)


def test_too_many_pages_or_words_are_rejected():
    with pytest.raises(UnreadableFile, match="3 pages; the limit is 2"):
        read(sample_files.pdf(*[TOTAL] * 3), pages=2)
    with pytest.raises(UnreadableFile, match="more than 3 words"):
        read(sample_files.pdf(TOTAL), words=3)


def test_a_page_is_rendered_at_the_requested_width():
    assert pdf.render(
        sample_files.pdf(TOTAL), FileLimits(), page=0, fit_within=(600, 9999), rotation=0
    ).size == (
        600,
        850,
    )
    assert (
        pdf.render(sample_files.pdf(TOTAL), FileLimits(), page=0, fit_within=(600, 9999), rotation=90).size[0]
        == 600
    )
    with pytest.raises(UnreadableFile, match="no page 2"):
        pdf.render(sample_files.pdf(TOTAL), FileLimits(), page=1, fit_within=(600, 600), rotation=0)


def test_a_part_has_a_file_id_of_its_file_and_pages():
    shared = [(50, 700, "Shared page")]
    contents = [sample_files.pdf(shared, shared, [(50, 700, f"File {number}")]) for number in range(2)]
    parts = [pdf.split(content, FileLimits(), parse_ranges("1,2,3")) for content in contents]
    ids = {str(PdfReader(io.BytesIO(part)).trailer["/ID"]) for file in parts for part in file}
    assert len(ids) == 6
    again = pdf.split(contents[0], FileLimits(), parse_ranges("1,2,3"))
    assert {str(PdfReader(io.BytesIO(part)).trailer["/ID"]) for part in again} < ids
