"""Numbers, dates and codes as documents write them."""

from datetime import date
from decimal import Decimal

import pytest

from postroom.documents.fields import check_digits
from postroom.documents.fields.document_text import build_document_text
from postroom.documents.fields.value_parsing import find_values
from postroom.documents.files import plain_text


def found(text, shape, *, likely=True):
    return [
        each.content
        for each in find_values(build_document_text(plain_text.to_transcript(text)))
        if each.shape == shape and each.likely is likely
    ]


@pytest.mark.parametrize(
    "text, number",
    [
        ("Kurswert 1.926,40 EUR", "1926.40"),
        ("Consideration 9,998.50 GBP", "9998.50"),
        ("Total CHF 3'545.00", "3545.00"),
        ("Montant 2 008,64 EUR", "2008.64"),
        ("Betrag -1.800,-- EUR", "-1800"),
        ("Provision 15,00- EUR", "-15.00"),
        ("Preis €38.19", "38.19"),
        ("I alt kr.28.449,00", "28449.00"),
        ("Total Fr.3'545.00", "3545.00"),
    ],
)
def test_amounts_are_parsed_by_the_document_convention(text, number):
    assert found(text, "number") == [Decimal(number)]


@pytest.mark.parametrize(
    "text",
    [
        "Total -£150.00",
        "Total -€150.00",
        "Total - € 150.00",
        "Total -EUR 150.00",
        "Total EUR -150.00",
        "Total (150.00)",
        "Total (£150.00)",
        "Total (150.00 EUR)",
        "Total 150.00-",
        "Total 150.00- EUR",
        "Total £150.00 CR",
        "Total \u2212150.00",
    ],
)
def test_a_sign_is_found_in_every_position(text):
    assert found(text, "number") == [Decimal("-150.00")]


@pytest.mark.parametrize("text", ["Total (20.00 %)", "Note (1)", "Item (see 150.00)", "INV-EUR 150.00"])
def test_what_only_looks_like_a_sign_is_none(text):
    assert all(number > 0 for number in found(text, "number"))


def test_three_digits_after_a_separator_follow_the_other_numbers():
    assert found("Anteile 1.216 Kurs 162.83", "number")[0] == Decimal("1.216")
    assert found("Anteile 1.216 Kurs 162,83", "number")[0] == Decimal(1216)
    assert Decimal("1.216") in found("Anteile 1.216 Kurs 162,83", "number", likely=False)


@pytest.mark.parametrize(
    "text",
    [
        "18.04.2017",
        "18. April 2017",
        "18/04/2017",
        "2017-04-18",
        "18-Apr-2017",
        "April 18, 2017",
        "18 avril 2017",
        "18.04.17",
    ],
)
def test_a_date_is_parsed_in_every_spelling(text):
    assert found(f"am {text} ausgeführt", "date") == [date(2017, 4, 18)]


def test_one_unambiguous_american_date_decides_the_order():
    assert found("02/17/26 and 03/04/26", "date") == [date(2026, 2, 17), date(2026, 3, 4)]
    assert found("17/02/26 and 03/04/26", "date") == [date(2026, 2, 17), date(2026, 4, 3)]


def test_impossible_dates_and_document_numbers_are_no_dates():
    assert found("31.02.2020 und W07700-0000223056/23", "date") == []


def test_an_overlong_digit_string_is_no_number():
    assert found(f"Betrag {'1' * 31},123 EUR 5,00", "number") == [Decimal("5.00")]


def test_letter_spaced_text_becomes_words():
    line = build_document_text(
        plain_text.to_transcript("S t . 0 , 5 7 2 EUR 4 3 , 6 4 H a n d e l s t a g : 1 8 . 0 4 . 2 0 1 7")
    ).lines[0]
    assert line.text == "St. 0,572 EUR 43,64 Handelstag: 18.04.2017"


def test_leader_dots_are_removed():
    line = build_document_text(plain_text.to_transcript("ISIN..........FR0000133308")).lines[0]
    assert [word.text for word in line.words] == ["ISIN", "FR0000133308"]
    assert line.words[0].box.right < line.words[1].box.left


def test_an_iban_ends_where_its_country_says():
    text = "IBAN DE88 2008 0000 0970 3757 00 BIC COBADEFF"
    assert found(text, "iban") == ["DE88200800000970375700"]
    assert found("ISIN NL0011794037 AHOLD DELHAIZE", "isin") == ["NL0011794037"]


@pytest.mark.parametrize(
    "check, right, wrong",
    [
        (check_digits.is_valid_iban, "DE88200800000970375700", "DE89200800000970375700"),
        (check_digits.is_valid_isin, "US0378331005", "US0378331006"),
        (check_digits.check_vat_id, "DE136695976", "DE136695977"),
        (check_digits.check_vat_id, "ATU13585627", "ATU13585628"),
        (check_digits.check_vat_id, "FR40303265045", "FR41303265045"),
        (check_digits.check_vat_id, "BE0428759497", "BE0428759498"),
        (check_digits.check_vat_id, "DE136695976", "DE13669597²"),
    ],
)
def test_check_digits_distinguish_valid_and_invalid_numbers(check, right, wrong):
    assert check(right) is True
    assert check(wrong) is False


def test_an_adjacent_currency_belongs_to_the_amount_and_rates_are_marked():
    every = find_values(
        build_document_text(plain_text.to_transcript("Devisenkurs EUR/CHF 0.964296 Belastung CHF 46.90"))
    )
    numbers = [each for each in every if each.shape == "number"]
    assert [(each.rate, each.currency) for each in numbers] == [(True, "CHF"), (False, "CHF")]


def test_plain_text_has_pages_and_positions():
    transcript = plain_text.to_transcript("one  two\fthree")
    assert [(word.text, word.page, word.line) for word in transcript.words] == [
        ("one", 0, 0),
        ("two", 0, 0),
        ("three", 1, 0),
    ]
    assert transcript.words[1].box.left == 5 / plain_text.COLUMNS_PER_LINE
    assert plain_text.to_transcript("").words == ()


def test_an_amount_after_a_date_is_no_time():
    found = [
        value.has_time
        for value in find_values(
            build_document_text(
                plain_text.to_transcript("06.05.2024 -12.30 EUR\n06.05.2024 um 12.30\n06.05.2024 12:30")
            )
        )
        if value.shape == "date"
    ]
    assert found == [False, True, True]


@pytest.mark.parametrize("code", ["BE0403019261", "PL8567346215", "SK2022749619"])
def test_a_vat_id_as_long_as_an_isin_is_one(code):
    assert (found(f"VAT {code} IBAN", "vat_id"), found(code, "isin")) == ([code], [])
    assert found("ISIN BE0974293251", "isin") == ["BE0974293251"]
