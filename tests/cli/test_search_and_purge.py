"""`postroom search` and `postroom purge person` (K7, K8)."""

import json
from typing import Any
from uuid import UUID

import pytest

import databases
from store.sample_rows import document, message  # pyright: ignore[reportUnknownVariableType]


@pytest.fixture
async def mail(owner: Any, make_mailbox: Any) -> Any:
    organization = UUID("00000000-0000-4000-8000-000000000001")
    await owner.execute("INSERT INTO organizations (id, name) VALUES (%s, 'ours')", [organization])
    mailbox = await make_mailbox(organization)
    await message(
        owner, organization, mailbox, subject="Bill \x1b[31m17", body="the amount is due \x1b]0;title\x07"
    )
    await document(owner, organization, "amount due: 12.50")
    return mailbox


@pytest.fixture
def run(postroom: Any, database_url: str) -> Any:
    def run_postroom(*arguments: str) -> Any:
        return postroom(*arguments, **databases.login_settings(database_url))

    return run_postroom


def test_search_prints_matches_without_control_characters(run: Any, mail: Any):
    done = run("search", "amount", "due")
    assert done.returncode == 0, done.stderr
    assert "jane@example.org: Bill �[31m17" in done.stdout
    assert "due �]0;title�" in done.stdout
    assert "bill.pdf" in done.stdout
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout
    found = json.loads(run("search", "amount", "--json", "--mailbox", str(mail)).stdout)
    assert (len(found["messages"]), found["documents"]) == (1, [])
    assert found["messages"][0]["headline"][1] == ["amount", True]
    done = run("search", "nowhere")
    assert (done.returncode, done.stdout) == (1, "No matches.\n")
    done = run("search", "--", "-amount")
    assert (done.returncode, done.stderr.startswith("error: Give at least one word")) == (1, True)


def test_search_takes_a_word_with_a_dash_as_excluded_and_rejects_unknown_options(run: Any, mail: Any):
    assert run("search", "amount", "-nowhere").returncode == 0
    done = run("search", "amount", "-due", "--mailbox", str(mail))
    assert (done.returncode, done.stdout) == (1, "No matches.\n")
    done = run("search", "amount", "--limt", "5")
    assert done.returncode == 2
    assert "No such option: --limt" in done.stderr


def test_person_is_purged_only_with_confirmation(run: Any, mail: Any):
    done = run("purge", "person", "jane@example.org")
    assert done.returncode == 0, done.stderr
    assert "Messages to delete, with content, attachments and events: 1" in done.stdout
    assert "Senders to delete from arrivals of documents: 1" in done.stdout
    assert "--yes" in done.stdout
    removed = json.loads(run("purge", "person", "jane@example.org", "--yes", "--json").stdout)
    assert (removed["removed"], removed["messages"]) == (True, 1)
    assert json.loads(run("purge", "person", "jane@example.org", "--json").stdout)["messages"] == 0
    assert run("purge", "person", "jane").returncode == 1
    done = run("purge", "person", "nobody@example.org", "--yes")
    assert done.stdout.endswith("No table contains the address.\n"), "evidence that the search found nothing"
