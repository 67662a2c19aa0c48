"""`postroom capacity` as a person uses it, and the figures that docs/scaling.md shows."""

import json
import re
from pathlib import Path

import pytest

from postroom.cli.capacity import Load, calculate_needs
from postroom.model import ContentPolicy, ProviderName

PAGE = Path(__file__).parents[2] / "docs/scaling.md"


def calculate(mailboxes, messages=100.0, provider=ProviderName.GMAIL, sweep_minutes=5.0, **changed):
    return calculate_needs(
        Load(mailboxes, messages, provider, ContentPolicy.METADATA, sweep_minutes, **changed)
    )


def test_a_project_of_google_limits_how_many_mailboxes_are_read():
    reading = 100 * 24 + 288 * 2
    auditing = 36_500 * 2.05 / 7
    assert calculate(1000).gmail_units_a_day == pytest.approx(1000 * (reading + auditing), abs=1)
    assert calculate(5_000).google_projects == 1
    assert calculate(6_000).google_projects == 2
    assert calculate(6_000, provider=ProviderName.OUTLOOK).google_projects is None


def test_mailboxes_without_mail_cost_only_sweeps():
    idle, rare = calculate(100_000, 0), calculate(100_000, 0, sweep_minutes=50)
    assert idle.database_gigabytes == 0
    assert idle.database_cores == pytest.approx(10 * rare.database_cores)


def test_the_command_prints_lines_and_json(postroom):
    arguments = ("capacity", "--mailboxes", "1000", "--messages", "100")
    lines = postroom(*arguments).stdout.splitlines()
    assert lines[0] == "new messages: 1.16 a second on average"
    assert lines[5].endswith(" units a day, 1 project in Google Cloud")
    assert json.loads(postroom(*arguments, "--json").stdout)["google_projects"] == 1


def test_the_reference_set_ups_show_what_the_calculator_calculates():
    page = PAGE.read_text()
    row = r"^\| ([\d,]+) \| ([\d.,]+) \| ([\d.,]+) \| ([\d.,]+) GB \| ([\d,]+) \|"
    rows = re.findall(row, page, re.MULTILINE)
    assert [row[0] for row in rows] == ["10", "1,000", "100,000", "1,000,000"]
    for count, *shown in rows:
        needs = calculate(int(count.replace(",", "")))
        figures = needs.database_cores, needs.worker_cores, needs.database_gigabytes
        assert shown == [*(f"{figure:,.2f}" for figure in figures), f"{needs.google_projects:,}"]
