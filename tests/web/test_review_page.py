"""The review page without a browser: queue, checks while typing, conflict, undo, comments, assignment."""

import re

import pytest

from postroom.model import Role
from web.sign_in_support import create_session
from web.test_review_checks import READ, SUM, api, ask
from web.test_table_fields import form_of

__all__ = ["api", "ask"]
# Amounts of another invoice that add up.
AMENDED = {"net": "200.00", "vat": "38.00", "gross": "238.00"}


@pytest.fixture
def entries(owner):
    """The entries of the ledger of this type: who did what."""

    async def entries(event_type):
        cursor = await owner.execute(
            "SELECT actor_id, payload FROM ledger WHERE event_type = %s ORDER BY id", [event_type]
        )
        return await cursor.fetchall()

    return entries


@pytest.fixture
async def ben(database, organization, owner):
    """Another reviewer: id and cookie."""
    session = await create_session(database, organization, Role.REVIEWER, address="ben@example.org")
    cursor = await owner.execute("SELECT id FROM members WHERE address = 'ben@example.org'")
    return (await cursor.fetchone())[0], {"postroom_session": session}


def part_of(text, name):
    """The content of the element with this id."""
    return re.search(rf'<(\w+) id="{name}"[^>]*>(.*?)</\1>', text, re.DOTALL)[2]


async def test_checks_follow_the_entered_values_and_agree_with_the_decision(visitor, ask, owner):
    _, document = await ask()
    address = f"/documents/{document}"
    form = form_of((await visitor.get(address)).text)
    right = await visitor.post(f"{address}/checks", data=form)
    assert (right.status_code, part_of(right.text, "override").strip()) == (200, "")
    assert "Checks passed" in right.text
    wrong = {**form, "field-gross": "991.00", "field-issued_on": "4 February"}
    found = (await visitor.post(f"{address}/checks", data=wrong)).text
    assert "gross is 991.00" in part_of(found, "findings-net")
    assert 'class="linked"' in part_of(found, "findings-gross")
    assert "must be a date such as 2026-02-04" in part_of(found, "findings-issued_on")
    assert "2 problems" in part_of(found, "summary")
    assert f'value="{SUM}"' in found
    refused = await visitor.post(f"{address}/confirm", data={**form, "field-gross": "991.00"})
    assert (refused.status_code, "gross is 991.00" in refused.text) == (409, True)
    cursor = await owner.execute("SELECT (SELECT count(*) FROM records), state FROM documents")
    assert await cursor.fetchall() == [(0, "needs_review")], "checking stores nothing"


async def test_only_required_and_doubtful_fields_are_marked(visitor, ask, owner):
    _, document = await ask()
    await owner.execute(
        """
        UPDATE extractions SET fields = jsonb_set(jsonb_set(jsonb_set(fields,
            '{net,confidence}', '0.99'), '{vat,confidence}', '0.99'), '{supplier,value}', 'null')
        """
    )
    page = (await visitor.get(f"/documents/{document}")).text
    marks = dict(
        re.findall(r'data-field="(\w+)">.*?<span class="mark">(.*?)</span>(?=\s*<div)', page, re.DOTALL)
    )
    assert "Missing" in marks["supplier"]
    assert "Check · 90%" in marks["gross"]
    assert (marks["net"], marks["vat"], marks["due_on"]) == ("", "", "")


async def test_conflict_shows_record_and_document_side_by_side(visitor, api, ask):
    first, _ = await ask()
    record = (await api.post(f"/reviews/{first}/confirm", json={})).json()
    _, amended = await ask(**AMENDED)
    address = f"/documents/{amended}"
    page = (await visitor.get(address)).text
    assert f"Differs from record <bdi>{record['key']}</bdi>" in page
    rows = re.findall(
        r'<tr class="differs"><th scope="row">(.*?)</th><td><bdi>(.*?)</bdi></td><td><mark><bdi>(.*?)<', page
    )
    assert rows == [
        ("Net amount (EUR)", "100.00", "200.00"),
        ("VAT (EUR)", "19.00", "38.00"),
        ("Gross amount (EUR)", "119.00", "238.00"),
    ]
    # With another number it is another invoice, and with the same values a duplicate.
    form = form_of(page)
    other = (await visitor.post(f"{address}/checks", data={**form, "field-number": "R-2"})).text
    assert "<section" not in part_of(other, "conflict")
    same = {**form, **{f"field-{name}": READ[name] for name in AMENDED}}
    assert "Duplicate of record" in (await visitor.post(f"{address}/checks", data=same)).text
    done = await visitor.post(f"{address}/confirm", data={**form, "replaced_record": record["id"]})
    assert done.status_code == 303, done.text
    assert (await api.get(f"/records/{record['id']}")).json()["state"] == "merged"


async def test_queue_shows_progress_and_leaves_out_what_others_review(visitor, ask, ben, entries, owner):
    documents = [(await ask(number=f"R-{number}"))[1] for number in range(3)]
    first, second, third = (f"/documents/{document}" for document in documents)
    assert (await visitor.get("/documents/next")).headers["location"] == first
    assert ">1 of 3<" in (await visitor.get(first)).text
    page = (await visitor.get(second)).text
    assert ">2 of 3<" in page
    assert f'href="{first}" id="previous"' in page
    form = form_of((await visitor.get(first)).text)
    assert (await visitor.post(f"{first}/confirm", data=form)).status_code == 303
    assert ">2 of 3<" in (await visitor.get(second)).text, "the decided one counts"
    given = await visitor.post(f"{second}/assign", data={"assignee": str(ben[0])})
    assert given.headers["location"] == f"/documents/next?after={documents[1]}"
    assert (await visitor.get(given.headers["location"])).headers["location"] == third
    skipping = await visitor.get(f"/documents/next?after={documents[0]}")
    assert skipping.headers["location"] == third
    assert ">2 of 2<" in (await visitor.get(third)).text
    assert "Assigned to" in (await visitor.get(second)).text
    [(_, payload)] = await entries("DOCUMENT_ASSIGNED")
    assert payload == {"assignee": str(ben[0])}
    cursor = await owner.execute("SELECT data FROM events WHERE data ? 'assignee'")
    assert await cursor.fetchall() == [({"assignee": str(ben[0])},)]
    visitor.cookies = ben[1]
    assert ">1 of 2<" in (await visitor.get(second)).text
    assert "Assigned to you" in (await visitor.get(second)).text


async def test_assignee_must_be_able_to_decide(visitor, api, ask, database, organization, owner):
    _, document = await ask()
    await create_session(database, organization, Role.READER, address="eve@example.org")
    for body, words in (
        ({"assignee": "eve@example.org"}, "cannot decide reviews"),
        ({"assignee": "gone@example.org"}, "No member has the address"),
    ):
        refused = await api.post(f"/documents/{document}/assign", json=body)
        assert (refused.status_code, words in refused.json()["detail"]) == (409, True), refused.text
    unknown = await visitor.post(f"/documents/{document}/assign", data={"assignee": str(document)})
    assert (unknown.status_code, "There is no such member" in unknown.text) == (409, True)


async def test_confirmed_document_is_undone_by_its_reviewer_only(visitor, api, ask, ben, owner):
    _, document = await ask()
    address = f"/documents/{document}"
    form = form_of((await visitor.get(address)).text)
    assert (await visitor.post(f"{address}/undo")).status_code == 409, "there is no decision yet"
    await visitor.post(f"{address}/confirm", data={**form, "field-number": "R-9"})
    own, visitor.cookies = dict(visitor.cookies), ben[1]
    assert 'id="undo"' not in (await visitor.get(address)).text
    assert (await visitor.post(f"{address}/undo")).status_code == 409
    visitor.cookies = own
    assert f'action="{address}/undo"' in (await visitor.get(address)).text
    assert (await visitor.post(f"{address}/undo")).headers["location"] == address
    state = (await api.get(address)).json()["document"]
    assert state["state"] == "needs_review"
    assert (await api.get(f"/records/{state['record_id']}")).json()["state"] == "reopened"
    page = (await visitor.get(address)).text
    assert form_of(page)["field-number"] == "R-9", "what was entered stays"
    again = await visitor.post(f"{address}/confirm", data=form_of(page))
    assert again.status_code == 303
    cursor = await owner.execute("SELECT count(*), max(version) FROM records")
    assert await cursor.fetchall() == [(1, 3)]


async def test_rejected_document_is_undone(visitor, api, ask):
    review, document = await ask()
    address = f"/documents/{document}"
    await visitor.post(f"{address}/reject", data={"reason": "duplicate"})
    assert (await api.get(address)).json()["document"]["state"] == "skipped"
    assert (await visitor.post(f"{address}/undo")).status_code == 303
    page = (await visitor.get(address)).text
    assert "is uncertain (90%)" in page, "the question is the same"
    assert (await api.get(f"/reviews/{review}")).json()["decision"] == "rejected"
    assert (await visitor.post(f"{address}/confirm", data=form_of(page))).status_code == 303


async def test_duplicate_that_joined_a_record_is_not_undone_with_it(visitor, api, ask):
    review, _ = await ask()
    assert (await api.post(f"/reviews/{review}/confirm", json={})).status_code == 200
    _, copy = await ask(due_on="2026-03-04")
    address = f"/documents/{copy}"
    form = form_of((await visitor.get(address)).text) | {"field-due_on": ""}
    done = await visitor.post(f"{address}/confirm", data=form)
    assert done.status_code == 303, done.text
    refused = await visitor.post(f"{address}/undo")
    assert (refused.status_code, "has other documents, too" in refused.text) == (409, True)


async def test_comments_are_shown_recorded_and_listed(visitor, api, ask, entries):
    _, document = await ask()
    address = f"/documents/{document}"
    said = "Ask <Ann> about the discount."
    done = await visitor.post(f"{address}/comment", data={"text": f" {said} "})
    assert done.headers["location"] == f"{address}#comments"
    assert (await visitor.post(f"{address}/comment", data={"text": " "})).status_code == 409
    page = (await visitor.get(address)).text
    assert "Ask &lt;Ann&gt; about the discount." in page
    assert "1 comment<" in page
    added = await api.post(f"{address}/comments", json={"text": "She agrees."})
    assert added.status_code == 201, added.text
    listed = (await api.get(f"{address}/comments?limit=1")).json()
    assert [item["text"] for item in listed["data"]] == ["She agrees."]
    older = (await api.get(f"{address}/comments", params={"cursor": listed["next"]})).json()
    assert [item["text"] for item in older["data"]] == [said]
    recorded = await entries("DOCUMENT_COMMENTED")
    assert [list(payload) for _, payload in recorded] == [["comment"], ["comment"]]
    assert said not in str(recorded), "the ledger names the comment and does not repeat it"


async def test_words_of_a_document_have_positions(visitor, ask, owner, organization):
    _, document = await ask()
    address = f"/documents/{document}/words"
    assert (await visitor.get(address)).json() == []
    await owner.execute(
        """
        INSERT INTO transcripts (organization_id, document_id, method, pages, text, words)
        VALUES (%s, %s, 'plain', 2, 'Rechnung', %s)
        """,
        [
            organization,
            document,
            '{"pages": [[595, 842, 0], [595, 842, 0]], "words": [["Re\\u202echnung", 1, 0, 10, 20, 30, 40]]}',
        ],
    )
    assert (await visitor.get(address)).json() == [[], [["Re\ufffdchnung", 0, 10, 20, 30, 40]]]
