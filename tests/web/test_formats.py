"""Numbers and dates on pages follow the browser's language; inputs and exports do not."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from postroom.web.formats import DEFAULT, choose_formats
from web.test_lists import confirm, read_cells
from web.test_review_checks import api, ask
from web.test_table_fields import form_of

__all__ = ["api", "ask", "confirm"]

GERMAN = {"accept-language": "de-DE,de;q=0.9,en;q=0.8"}


@pytest.mark.parametrize(
    "header, amount, day",
    [
        ("", "1,234,567.80", "2026-02-04"),
        ("en-US,en;q=0.9", "1,234,567.80", "2026-02-04"),
        ("de-DE,de;q=0.9,en;q=0.8", "1.234.567,80", "04.02.2026"),
        ("de-CH", "1\u2019234\u2019567.80", "04.02.2026"),
        ("fr", "1\u202f234\u202f567,80", "04/02/2026"),
        ("NL-be", "1.234.567,80", "04-02-2026"),
        ("sv", "1\u202f234\u202f567,80", "2026-02-04"),
        ("en;q=0.1, de;q=0.5", "1.234.567,80", "04.02.2026"),
        ("tlh, de;q=0.5", "1.234.567,80", "04.02.2026"),
        ("de;q=0, fr;q=x, *", "1,234,567.80", "2026-02-04"),
        ("de;q=nan, fr;q=2", "1,234,567.80", "2026-02-04"),
        (";;,=,q=1," * 1000, "1,234,567.80", "2026-02-04"),
    ],
)
def test_formats_are_those_of_the_preferred_known_language(header, amount, day):
    formats = choose_formats(header)
    assert (formats.amount("1234567.8"), formats.day("2026-02-04")) == (amount, day)


def test_every_kind_of_value_has_the_separators_of_the_language():
    german = choose_formats("de")
    assert german.count(12345) == "12.345"
    assert german.count(12345, is_estimate=True) == "12.000"
    assert german.quantity("1500.250") == "1.500,25"
    assert german.amount("0.123456") == "0,123456"
    assert german.size(1_500_000) == "1,5 MB"
    assert german.seconds(1.5) == "1,5 s"
    assert german.month(date(2026, 2, 1)) == "02.2026"
    moment = datetime(2026, 2, 4, 0, 30, tzinfo=timezone(timedelta(hours=1)))
    assert german.moment(moment) == "03.02.2026 23:30:00 UTC"
    assert DEFAULT.moment(moment.astimezone(UTC)) == "2026-02-03 23:30:00 UTC"


@pytest.mark.parametrize("text", ["n/a", "2026-02-30", "", "1.234,50"])
def test_texts_that_are_no_numbers_or_dates_are_shown_as_they_are(text):
    german = choose_formats("de")
    assert {german.amount(text), german.quantity(text), german.day(text)} == {text}


@pytest.mark.parametrize(
    "value, words",
    [(0, "0 B"), (999, "999 B"), (8_000_000, "8.0 MB"), (42_500_000, "42 MB"), (3e12, "3.0 TB")],
)
def test_sizes_are_readable(value, words):
    assert DEFAULT.size(value) == words


@pytest.mark.parametrize(
    "value, words",
    [
        (-0.1, "0 ms"),
        (0.0042, "4 ms"),
        (1, "1 s"),
        (90, "2 min"),
        (7200, "2 h"),
        (200_000, "2 d"),
        (1e8, "1,157 d"),
    ],
)
def test_durations_are_readable(value, words):
    assert DEFAULT.duration(value) == words


async def test_pages_follow_the_language_of_the_browser(visitor, confirm):
    record, _ = await confirm(gross="1019.50", net="856.72", vat="162.78", issued_on="2026-02-04")
    answer = await visitor.get("/records", headers=GERMAN)
    assert answer.headers["vary"] == "Accept-Language"
    assert read_cells(answer.text, "Amount") == ["1.019,50 EUR"]
    assert read_cells(answer.text, "Date") == ["04.02.2026"]
    english = (await visitor.get("/records")).text
    assert read_cells(english, "Amount") == ["1,019.50 EUR"]
    assert read_cells(english, "Date") == ["2026-02-04"]
    page = (await visitor.get(f"/records/{record['id']}", headers=GERMAN)).text
    assert "<bdi>1.019,50</bdi>" in page
    assert "<bdi>04.02.2026</bdi>" in page


async def test_inputs_and_exports_are_the_same_in_every_language(visitor, ask):
    _, document = await ask(gross="1019.50", net="856.72", vat="162.78", issued_on="2026-02-04")
    form = form_of((await visitor.get(f"/documents/{document}", headers=GERMAN)).text)
    assert (form["field-gross"], form["field-issued_on"]) == ("1019.50", "2026-02-04")
    filtered = (await visitor.get("/documents?from=2026-02-01&min=1000.5", headers=GERMAN)).text
    assert 'value="2026-02-01"' in filtered
    assert 'value="1000.5"' in filtered
    for form in ("csv", "json"):
        export = f"/documents/export?format={form}"
        assert (await visitor.get(export, headers=GERMAN)).content == (await visitor.get(export)).content
