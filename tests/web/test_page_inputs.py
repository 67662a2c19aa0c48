"""Invalid input and URLs: a page answers with a message, and keeps what was typed."""

import re
from hashlib import sha256

import httpx2
import pytest
from psycopg.types.json import Jsonb
from starlette.routing import Mount, Route

from postroom.model import Role
from postroom.store import ledger, members
from postroom.web.api import PREFIX
from store.table_filler import TableFiller
from web.sign_in_support import URL, build_site, create_session_cookie

READ = {"number": "R-1", "issued_on": "2026-02-04", "gross": "119.00", "currency": "EUR"}
HUGE = "9" * 25
BAD = ("%00", HUGE, "%C2%B2")
QUERIES = (
    "q",
    "folder",
    "before",
    "below",
    "state",
    "after",
    "next",
    "token",
    "connected",
    "code",
    "ordered",
    "kind",
    "due",
    "from",
    "until",
    "min",
    "max",
    "sort",
    "supplier",
    "format",
)
FIELDS = (
    "address", "password", "token", "next", "reason", "field-gross", "field-number", "failure", "kind",
    "subject", "name", "days", "key", "role", "scope-read",
)  # fmt: skip


@pytest.fixture
def asked(owner, organization):
    """A document that waits for a person since this many minutes; its id."""

    async def ask(minutes=1):
        digest = sha256(str(minutes).encode()).digest()
        await owner.execute(
            "INSERT INTO blobs (organization_id, sha256, size) VALUES (%s, %s, 1)", [organization, digest]
        )
        cursor = await owner.execute(
            """
            WITH document AS (
                INSERT INTO documents
                    (organization_id, pipeline, kind, state, media_type, sha256, state_since)
                SELECT %(organization)s, 'invoices', 'invoice', 'needs_review', 'application/pdf', %(digest)s,
                    postroom_now() - make_interval(mins => %(minutes)s)
                RETURNING organization_id, id, state_since
            ), arrival AS (
                INSERT INTO arrivals
                    (organization_id, document_id, source, sender, file_name, received_at)
                SELECT organization_id, id, 'gmail_push', 'ann@example.org', 'bill.pdf', '2026-02-05'
                FROM document
            ), extraction AS (
                INSERT INTO extractions (organization_id, document_id, kind, reader, fields, layout)
                SELECT organization_id, id, 'invoice', 'offline', %(fields)s, 'x' FROM document
            )
            INSERT INTO reviews (organization_id, document_id, reason, created_at)
            SELECT organization_id, id, 'the gross amount is not sure', state_since FROM document
            RETURNING document_id
            """,
            {
                "organization": organization,
                "digest": digest,
                "minutes": minutes,
                "fields": Jsonb({name: {"value": value, "confidence": 0.9} for name, value in READ.items()}),
            },
        )
        return (await cursor.fetchone())[0]

    return ask


def pages_of(site):
    """The routes of pages: programs are answered by others, and a stream has no end.

    Signing out is last, because it ends the session.
    """
    while not hasattr(site, "routes"):
        site = site._app
    routes = sorted(site.routes, key=lambda each: getattr(each, "path", "") == "/sign-out")
    return [
        each
        for each in routes
        if isinstance(each, Route | Mount)
        and not each.path.startswith((f"{PREFIX}/", "/webhooks/", "/api/graph/"))
        and not each.path.endswith("/events")
    ]


async def test_no_page_input_causes_a_500(site, visitor, owner, organization, asked):
    filling = TableFiller(owner, organization)
    await filling.fill()
    known = {
        "document": await asked(),
        "mailbox": filling.whole["mailboxes"]["id"],
        "message": filling.whole["messages"]["id"],
        "thread": filling.whole["threads"]["id"],
        "member": filling.whole["members"]["id"],
    }
    cookies = dict(visitor.cookies)
    for route in pages_of(site):
        methods = getattr(route, "methods", None) or {"GET"}
        for address in addresses(route, known):
            for method in methods - {"HEAD"}:
                for body in bodies(method):
                    visitor.cookies = cookies  # one of the pages signs out
                    answer = await visitor.request(method, address, **body)
                    assert answer.status_code != 500, (method, address, body)


def addresses(route, known):
    names = re.findall(r"{(\w+)", route.path)
    fine = re.sub(r"{(\w+)[^}]*}", lambda found: str(known.get(found[1], "x")), route.path)
    yield from (fine + "?" + "&".join(f"{name}={bad}" for name in QUERIES) for bad in BAD)
    for bad in BAD if names or isinstance(route, Mount) else ():
        yield re.sub(r"{\w+[^}]*}", bad, route.path) + ("" if names else f"/{bad}")
        yield re.sub(r"{(\w+)[^}]*}(?=.*{)", lambda found: str(known.get(found[1], "x")), fine + f"/{bad}")
        if len(names) > 1:
            head, _, _ = route.path.rpartition("{")
            yield re.sub(r"{(\w+)[^}]*}", lambda found: str(known.get(found[1], "x")), head) + bad


def bodies(method):
    if method == "GET":
        return [{}]
    form = {"content-type": "application/x-www-form-urlencoded"}
    return [
        {"content": "&".join(f"{name}={bad}" for name in FIELDS), "headers": form | {"origin": URL}}
        for bad in BAD
    ]


async def test_values_out_of_column_range_return_400(visitor, asked):
    document = await asked()
    for method, address in (
        ("GET", "/search?q=%00"),
        ("GET", "/messages/1/attachments/%00"),
        ("GET", f"/messages/{HUGE}"),
        ("POST", "/sign-in"),
        ("POST", f"/documents/{document}/reject"),
    ):
        content = "address=%00&reason=%00" if method == "POST" else None
        answer = await visitor.request(method, address, content=content)
        assert answer.status_code in {400, 404}, address
        assert "<h1>" in answer.text


async def test_failed_document_is_dismissed(visitor, asked, owner):
    document = await asked()
    await owner.execute("DELETE FROM reviews")
    await owner.execute("UPDATE documents SET state = 'failed', last_error = 'damaged'")
    page = (await visitor.get(f"/documents/{document}")).text
    assert f'action="/documents/{document}/reject"' in page
    dismissed = await visitor.post(f"/documents/{document}/reject", data={"reason": "a report"})
    assert dismissed.status_code == 303
    page = (await visitor.get(f"/documents/{document}")).text
    assert "rejected: a report" in page
    assert f'action="/documents/{document}/reject"' not in page


async def test_next_document_wraps_around_after_the_last(visitor, asked):
    waiting = [await asked(minutes) for minutes in (40, 30, 20, 10)]

    async def after(document):
        answer = await visitor.get(f"/documents/next?after={document}")
        return answer.headers["location"].removeprefix("/documents/")

    assert [await after(each) for each in waiting] == [str(each) for each in (*waiting[1:], waiting[0])]
    decided = await visitor.post(f"/documents/{waiting[1]}/reject", data={"reason": "x"})
    assert decided.headers["location"] == f"/documents/next?after={waiting[1]}"
    assert await after(waiting[1]) == str(waiting[2]), "a decided one keeps its place in the row"
    assert (await visitor.get("/documents/next")).headers["location"].endswith(str(waiting[0]))


async def test_rejected_values_are_shown_again_with_the_error_at_their_field(visitor, asked):
    document = await asked()
    typed = {f"field-{name}": value for name, value in READ.items()}
    typed |= {"field-issued_on": "soon", "field-number": "R-4711"}
    answer = await visitor.post(f"/documents/{document}/confirm", data=typed)
    assert answer.status_code == 409
    assert 'value="soon"' in answer.text
    assert 'value="R-4711"' in answer.text
    beside = re.search(r'id="problem-issued_on">([^<]+)<', answer.text)
    assert beside[1].startswith("“Issued” ")
    assert "soon" in beside[1]
    again = await visitor.get(f"/documents/{document}/confirm")
    assert (again.status_code, again.headers["location"]) == (303, f"/documents/{document}")
    assert 'value="soon"' not in (await visitor.get(f"/documents/{document}")).text
    assert (await visitor.get(f"/documents/{document}/nonsense")).status_code == 404


async def test_disabled_webhook_shows_the_reason(visitor, owner, organization):
    assert "No webhooks yet" in (await visitor.get("/webhooks")).text
    filling = TableFiller(owner, organization)
    await filling.fill()
    await owner.execute(
        """
        UPDATE webhooks SET url = 'https://app.example.org/hooks?key=hidden-k', disabled_at = postroom_now(),
            disabled_because = 'no delivery was accepted for three days'
        """
    )
    await owner.execute("UPDATE deliveries SET due_at = postroom_now()")
    shown = (await visitor.get("/webhooks")).text
    for words in ("https://app.example.org/hooks<", "Disabled", "no delivery was accepted for three days"):
        assert words in shown
    assert 'data-label="Pending events">1<' in shown
    assert "hidden-k" not in shown


async def test_fields_have_labels_and_amounts_have_units(visitor, asked):
    document = await asked()
    shown = (await visitor.get(f"/documents/{document}")).text
    assert ">Issued</label>" in shown
    assert 'name="field-supplier" value=""' in shown, "what was not found can be typed"
    assert ">Gross amount (EUR)</label>" in shown


async def test_label_filter_shows_labelled_messages(visitor, owner, organization):
    filling = TableFiller(owner, organization)
    await filling.fill()
    mailbox, message = filling.whole["mailboxes"]["id"], filling.whole["messages"]["id"]
    await owner.execute("UPDATE mailboxes SET provider = 'gmail'")
    await owner.execute("UPDATE messages SET labels = '{INBOX}', folder_id = NULL, deleted_at = NULL")
    names = {"SPAM": "spam", "Acme": None, "INBOX": "inbox", "UNREAD": None}
    folders = {}
    for name, role in names.items():
        cursor = await owner.execute(
            """
            INSERT INTO folders (organization_id, mailbox_id, provider_folder_id, name, role)
            VALUES (%s, %s, %s, %s, %s) RETURNING id
            """,
            [organization, mailbox, name, name, role],
        )
        folders[name] = (await cursor.fetchone())[0]
    inbox = (await visitor.get(f"/mailboxes/{mailbox}?folder={folders['INBOX']}")).text
    spam = (await visitor.get(f"/mailboxes/{mailbox}?folder={folders['SPAM']}")).text
    row = f'id="message-{message}"'
    assert (row in inbox, row in spam) == (True, False)
    shown = re.findall(r"folder=(\d+)", inbox)
    assert shown.index(str(folders["INBOX"])) < shown.index(str(folders["Acme"]))
    assert shown.index(str(folders["Acme"])) < shown.index(str(folders["SPAM"]))
    assert str(folders["UNREAD"]) not in shown


async def test_lost_grant_is_reported_once_and_offers_only_what_works(visitor, owner, organization):
    filling = TableFiller(owner, organization)
    await filling.fill()
    mailbox = filling.whole["mailboxes"]["id"]
    await owner.execute(
        """
        UPDATE mailboxes SET health = 'token_refresh_failed', health_cause = 'consent_lost',
            last_error = 'Connect the mailbox again.', disconnected_at = NULL, paused_at = NULL
        """
    )
    await owner.execute(
        """
        UPDATE subscriptions SET status = 'active', replaced_at = NULL, confirmed_at = now(),
            expires_at = now() + interval '1 day'
        """
    )
    shown = (await visitor.get("/mailboxes")).text
    assert shown.count("Reconnect the mailbox; the sync resumes") == 1
    assert "Connect the mailbox again." not in shown
    assert "Cannot be renewed</span>" in shown
    assert "Sync now" not in shown + (await visitor.get(f"/mailboxes/{mailbox}")).text
    assert ">Pause<" not in shown


async def test_message_that_cannot_be_sanitized_in_time_is_shown_as_plain_text(visitor, owner, organization):
    filling = TableFiller(owner, organization)
    await filling.fill()
    message = filling.whole["messages"]["id"]
    endless = "<p " + " ".join(f"a{number}" for number in range(140_000)) + ">"
    await owner.execute(
        "UPDATE message_contents SET body_html = %s, body_plain = 'Fish & chips' WHERE message_id = %s",
        [endless, message],
    )
    shown = await visitor.get(f"/messages/{message}/body")
    assert shown.status_code == 200
    assert "<pre>Fish &amp; chips</pre>" in shown.text
    assert "cannot be displayed" in shown.text


@pytest.mark.parametrize("role, may", [(Role.READER, False), (Role.REVIEWER, False), (Role.ADMIN, True)])
async def test_sync_permission_is_the_same_on_the_page_and_in_the_api(
    site, database, organization, make_mailbox, role, may
):
    mailbox = await make_mailbox(organization)
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(site),
        base_url=URL,
        cookies=await create_session_cookie(build_site(database, organization), role),
        headers={"origin": URL},
    ) as client:
        shown = (await client.get(f"/mailboxes/{mailbox}")).text
        asked = await client.post(f"/mailboxes/{mailbox}/sync")
        called = await client.post(f"{PREFIX}/mailboxes/{mailbox}/sync", json={})
    assert ("Sync now" in shown) is may
    assert (asked.status_code, called.status_code) == ((303, 202) if may else (403, 403))


async def test_ledger_records_who_created_a_link(visitor, database, organization):
    made = await visitor.post("/members/add", data={"address": "bob@example.org", "role": "reader"})
    assert "/sign-in/link?token=" in made.text
    assert "Send this link to bob@example.org." in made.text
    async with database.transaction(organization) as connection:
        [link] = [
            each
            for each in await ledger.list_newest(connection, limit=2)
            if each.event_type == "SIGN_IN_LINK_MADE"
        ]
        admin = await members.find_by_address(connection, "admin@example.org")
    assert link.actor_id == f"member:{admin.id}"
