"""W3: pages, ETags, ranges, idempotency keys, scopes and limits of the API."""

import asyncio
from hashlib import sha256

import pytest
from starlette.requests import Request

from postroom.flow.access import api_keys, members
from postroom.model import Role, Scope, Secret, WorkKind
from postroom.store import idempotency_keys, work
from postroom.web.api import http_content
from store.sample_rows import message
from store.table_filler import TableFiller
from web.api_client import build_client, create_key_header, open_api_application
from web.sign_in_support import URL, create_session


@pytest.fixture
async def served(database, organization, tmp_path):
    async with open_api_application(database, organization, tmp_path) as made:
        yield made


@pytest.fixture
async def api(served, database, organization):
    async with build_client(served[0], await create_key_header(database, organization)) as client:
        yield client


@pytest.fixture
def blobs(served):
    return served[1]


@pytest.fixture
async def mailbox(make_mailbox, organization):
    return await make_mailbox(organization)


@pytest.fixture
def deliver(owner, organization, mailbox):
    """Messages of one thread, the later ones newer; every third without a time of receipt."""

    async def deliver(count):
        cursor = await owner.execute(
            """
            INSERT INTO threads (organization_id, mailbox_id, provider_thread_id, last_message_at)
            VALUES (%s, %s, 't1', now()) RETURNING id
            """,
            [organization, mailbox],
        )
        [thread] = await cursor.fetchone()
        ids = []
        for number in range(count):
            cursor = await owner.execute(
                """
                INSERT INTO messages (organization_id, mailbox_id, thread_id, provider_message_id, subject,
                    received_at)
                VALUES (%(organization)s, %(mailbox)s, %(thread)s, %(key)s, %(key)s, CASE WHEN %(odd)s
                    THEN NULL ELSE timestamptz '2026-01-01' + %(number)s / 2 * interval '1 hour' END)
                RETURNING id
                """,
                {
                    "organization": organization,
                    "mailbox": mailbox,
                    "thread": thread,
                    "key": f"m{number}",
                    "odd": number % 3 == 2,
                    "number": number,
                },
            )
            ids.append((await cursor.fetchone())[0])
        return thread, ids

    return deliver


async def pages_of(api, path, **asked):
    cursor, found = None, []
    while True:
        given = asked | ({"cursor": cursor} if cursor else {})
        answer = await api.get(path, params=given)
        assert answer.status_code == 200, answer.text
        found.append(answer.json()["data"])
        cursor = answer.json()["next"]
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
async def test_paging_lists_every_message_exactly_once(api, deliver, mailbox, limit):
    _, ids = await deliver(7)
    pages = await pages_of(api, f"/mailboxes/{mailbox}/messages", limit=limit)
    found = [row for page in pages for row in page]
    assert sorted(row["id"] for row in found) == ids
    times = [row["received_at"] for row in found if row["received_at"]]
    assert times == sorted(times, reverse=True)
    assert all(len(page) <= limit for page in pages)


async def test_new_messages_do_not_shift_later_pages(api, deliver, mailbox, owner, organization):
    thread, ids = await deliver(6)
    first = (await api.get(f"/mailboxes/{mailbox}/messages", params={"limit": 3})).json()
    await owner.execute(
        """
        INSERT INTO messages (organization_id, mailbox_id, thread_id, provider_message_id, received_at)
        VALUES (%s, %s, %s, 'new', '2027-01-01')
        """,
        [organization, mailbox, thread],
    )
    second = (await api.get(f"/mailboxes/{mailbox}/messages", params={"cursor": first["next"]})).json()
    assert sorted(row["id"] for row in first["data"] + second["data"]) == ids


async def test_messages_are_filtered_by_folder_and_by_label(api, deliver, mailbox, owner, organization):
    _, ids = await deliver(2)
    made = {}
    for name in ("INBOX", "SPAM"):
        cursor = await owner.execute(
            """
            INSERT INTO folders (organization_id, mailbox_id, provider_folder_id, name)
            VALUES (%s, %s, %s, %s) RETURNING id
            """,
            [organization, mailbox, name, name],
        )
        [made[name]] = await cursor.fetchone()

    async def found(name):
        answer = await api.get(f"/mailboxes/{mailbox}/messages", params={"folder": made[name]})
        return [each["id"] for each in answer.json()["data"]]

    await owner.execute("UPDATE messages SET labels = '{INBOX}' WHERE id = %s", [ids[0]])
    assert (await found("INBOX"), await found("SPAM")) == ([ids[0]], [])
    await owner.execute("UPDATE messages SET labels = '{}', folder_id = %s", [made["INBOX"]])
    await owner.execute("UPDATE messages SET folder_id = NULL WHERE id = %s", [ids[0]])
    assert (await found("INBOX"), await found("SPAM")) == ([ids[1]], [])


async def test_thread_messages_are_listed_oldest_first(api, deliver):
    thread, ids = await deliver(3)
    pages = await pages_of(api, f"/threads/{thread}/messages", limit=2)
    assert [row["id"] for page in pages for row in page] == ids
    assert (await api.get(f"/threads/{thread}")).json()["id"] == thread


async def test_search_finds_messages_by_words(api, deliver, owner, organization):
    _, ids = await deliver(2)
    await owner.execute(
        """
        INSERT INTO message_contents (organization_id, message_id, body_plain, search)
        VALUES (%s, %s, 'Rechnung im Anhang', to_tsvector('simple', 'Rechnung im Anhang'))
        """,
        [organization, ids[1]],
    )
    found = (await api.get("/messages", params={"q": "rechnung -absage"})).json()["data"]
    assert [row["id"] for row in found] == [ids[1]]
    whole = (await api.get(f"/messages/{ids[1]}")).json()
    assert whole["content"]["body_plain"] == "Rechnung im Anhang"


async def test_text_of_a_message_without_a_plain_body_comes_from_its_html(api, deliver, owner, organization):
    _, ids = await deliver(2)
    for id_, plain in zip(ids, (None, "as it was sent"), strict=True):
        await owner.execute(
            """
            INSERT INTO message_contents (organization_id, message_id, body_plain, body_html, search)
            VALUES (%s, %s, %s, '<style>p {}</style><p>Fish &amp; chips</p><p>at noon</p>', '')
            """,
            [organization, id_, plain],
        )
    derived = (await api.get(f"/messages/{ids[0]}")).json()["content"]
    assert (derived["body_plain"], derived["is_plain_from_html"]) == ("Fish & chips\nat noon", True)
    sent = (await api.get(f"/messages/{ids[1]}")).json()["content"]
    assert (sent["body_plain"], sent["is_plain_from_html"]) == ("as it was sent", False)


async def test_mail_events_name_sender_and_subject(api, owner, organization, mailbox):
    await owner.execute("UPDATE mailboxes SET content_policy = 'metadata'")
    await message(owner, organization, mailbox, sender="jane@example.org", subject="Offer")
    [event] = (await api.get(f"/mailboxes/{mailbox}/events")).json()["data"]
    assert (event["kind"], event["subject"]) == ("created", "Offer")
    assert (event["from_address"], event["from_domain"]) == ("jane@example.org", "example.org")
    assert (event["is_newsletter"], event["is_automated"]) == (False, False)


async def test_threads_without_messages_are_not_listed(api, deliver, mailbox, owner):
    thread, _ = await deliver(1)
    await owner.execute(
        """
        INSERT INTO threads (organization_id, mailbox_id, provider_thread_id)
        SELECT organization_id, id, 'empty' FROM mailboxes
        """
    )
    await owner.execute(
        "UPDATE threads SET message_count = 1, last_message_at = now() WHERE id = %s", [thread]
    )
    assert [each["id"] for each in (await api.get(f"/mailboxes/{mailbox}/threads")).json()["data"]] == [
        thread
    ]


async def test_every_list_and_item_operation_succeeds(api, owner, organization, blobs):
    filling = TableFiller(owner, organization)
    await filling.fill()
    for name in (
        "mailboxes",
        "documents",
        "reviews",
        "records",
        "orders",
        "subscriptions",
        "failures",
        "ledger",
    ):
        rows = (await api.get(f"/{name}")).json()["data"]
        assert rows, name
        if name in {"documents", "reviews", "records", "orders", "failures"}:
            one = await api.get(f"/{name}/{rows[0]['id']}")
            assert one.status_code == 200, one.text
    mailbox = filling.whole["mailboxes"]["id"]
    for name in ("folders", "threads", "messages", "events"):
        assert (await api.get(f"/mailboxes/{mailbox}/{name}")).json()["data"], name


async def test_matching_etag_returns_304(api, mailbox, owner):
    first = await api.get(f"/mailboxes/{mailbox}")
    tag = first.headers["etag"]
    again = await api.get(f"/mailboxes/{mailbox}", headers={"if-none-match": f'"x", W/{tag}'})
    assert (again.status_code, again.content) == (304, b"")
    await owner.execute("UPDATE mailboxes SET last_error = 'x'")
    assert (await api.get(f"/mailboxes/{mailbox}", headers={"if-none-match": tag})).status_code == 200


async def test_mailbox_change_respects_if_match(api, mailbox, database, organization, owner):
    tag = (await api.get(f"/mailboxes/{mailbox}")).headers["etag"]
    await owner.execute("UPDATE mailboxes SET last_synced_at = now()")
    read = await api.get(f"/mailboxes/{mailbox}", headers={"if-none-match": tag})
    assert read.status_code == 200, "what is shown has changed, what can be changed has not"
    paused = await api.patch(f"/mailboxes/{mailbox}", json={"paused": True}, headers={"if-match": tag})
    assert paused.json()["paused_at"] is not None
    stale = await api.patch(f"/mailboxes/{mailbox}", json={"paused": False}, headers={"if-match": tag})
    assert stale.status_code == 412
    assert (await api.post(f"/mailboxes/{mailbox}/sync")).status_code == 409
    assert (await api.patch(f"/mailboxes/{mailbox}", json={"paused": False})).json()["paused_at"] is None
    assert (await api.post(f"/mailboxes/{mailbox}/sync")).status_code == 202
    async with database.engine() as connection:
        claim = await work.claim(connection, [WorkKind.SYNC], batch=9, lease_seconds=9)
    assert [lease.subject for lease in claim.leases] == [str(mailbox)]
    refused = await api.patch(f"/mailboxes/{mailbox}", json={"content_policy": "metadata"})
    assert (refused.status_code, "not connected" in refused.json()["detail"]) == (409, True)


async def test_failure_is_retried(api, owner, organization):
    filling = TableFiller(owner, organization)
    await filling.fill()
    failure = filling.whole["failures"]["id"]
    again = await api.post(f"/failures/{failure}/retry")
    assert (again.status_code, again.json()["attempts"]) == (202, 0)
    await owner.execute("UPDATE failures SET resolved_at = now()")
    assert (await api.post(f"/failures/{failure}/retry")).status_code == 409


@pytest.fixture
async def attachment(owner, organization, deliver, blobs):
    _, [message] = await deliver(1)
    content = bytes(range(256)) * 40
    blob = await blobs.put(organization, content)
    await owner.execute(
        "INSERT INTO blobs (organization_id, sha256, size) VALUES (%s, %s, %s)",
        [organization, blob.sha256, blob.size],
    )
    await owner.execute(
        """
        INSERT INTO attachments (organization_id, message_id, part, file_name, media_type, size, sha256)
        VALUES (%s, %s, '2.1', %s, 'text/html', %s, %s)
        """,
        [organization, message, 'r"ech\r\nnung é.html', len(content), blob.sha256],
    )
    return f"/messages/{message}/attachments/2.1", content


async def test_attachment_is_always_a_download(api, attachment):
    path, content = attachment
    answer = await api.get(path)
    assert answer.content == content
    assert answer.headers["content-disposition"] == (
        "attachment; filename=\"r_ech__nung _.html\"; filename*=UTF-8''r%22ech%0D%0Anung%20%C3%A9.html"
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["etag"] == f'"{sha256(content).hexdigest()}"'
    same = await api.get(path, headers={"if-none-match": answer.headers["etag"]})
    assert same.status_code == 304


@pytest.mark.parametrize(
    "asked, start, end",
    [
        ("bytes=0-9", 0, 10),
        ("bytes=10000-", 10000, 10240),
        ("bytes=-5", 10235, 10240),
        ("bytes=9-99999", 9, 10240),
    ],
)
async def test_attachment_range(api, attachment, asked, start, end):
    path, content = attachment
    answer = await api.get(path, headers={"range": asked})
    assert (answer.status_code, answer.content) == (206, content[start:end])
    assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/10240"


@pytest.mark.parametrize(
    "asked, status", [("bytes=10240-", 416), ("bytes=5-2", 416), ("bytes=-0", 416), ("x", 200)]
)
async def test_unsatisfiable_range_returns_416(api, attachment, asked, status):
    answer = await api.get(attachment[0], headers={"range": asked})
    assert answer.status_code == status


async def test_if_range_with_other_etag_returns_the_whole_content(api, attachment):
    answer = await api.get(attachment[0], headers={"range": "bytes=0-1", "if-range": '"old"'})
    assert (answer.status_code, len(answer.content)) == (200, 10240)


@pytest.mark.parametrize(
    "asked, status, sent",
    [
        ({}, 200, b"0123456789"),
        ({"range": "bytes=2-4"}, 206, b"234"),
        ({"range": "bytes=10-"}, 416, b""),
        ({"if-none-match": f'"{sha256(b"0123456789").hexdigest()}"'}, 304, b""),
    ],
)
def test_bytes_in_memory_are_served_in_ranges(asked, status, sent):
    headers = [(name.encode(), value.encode()) for name, value in asked.items()]
    request = Request({"type": "http", "method": "GET", "headers": headers})
    answer = http_content.respond_with_bytes(request, b"0123456789", "message/rfc822", "message-1.eml")
    assert (answer.status_code, answer.body) == (status, sent)
    if status in {200, 206}:
        assert answer.headers["content-length"] == str(len(sent))
        assert answer.headers["content-type"] == "message/rfc822"
        assert answer.headers["accept-ranges"] == "bytes"


async def test_idempotency_key_executes_a_write_once(api, mailbox, owner):
    headers = {"idempotency-key": "k1"}
    first = await api.patch(f"/mailboxes/{mailbox}", json={"paused": True}, headers=headers)
    await api.patch(f"/mailboxes/{mailbox}", json={"paused": False})
    again = await api.patch(f"/mailboxes/{mailbox}", json={"paused": True}, headers=headers)
    assert again.json() == first.json()
    assert again.headers["idempotent-replay"] == "true"
    assert (await api.get(f"/mailboxes/{mailbox}")).json()["paused_at"] is None, "not done again"
    made = [
        (
            await api.post("/webhooks", json={"url": "https://x.example/"}, headers={"idempotency-key": "k3"})
        ).json()
        for _ in range(2)
    ]
    assert made[0] == made[1]
    cursor = await owner.execute("SELECT body FROM idempotency_keys WHERE key = 'k3'")
    assert made[0]["secret"].encode() not in (await cursor.fetchone())[0], "kept sealed"
    other = await api.patch(f"/mailboxes/{mailbox}", json={"paused": False}, headers=headers)
    assert (other.status_code, other.json()["type"]) == (422, "urn:postroom:problem:key-reused")
    refused = {"idempotency-key": "k2"}
    for _ in range(2):  # what failed is not remembered as done
        answer = await api.patch(f"/mailboxes/{mailbox}", json={"paused": 1}, headers=refused)
        assert answer.status_code == 400


async def test_interrupted_write_is_not_repeated(api, monkeypatch, move_clock):
    async def cut_off(*_):
        raise RuntimeError("between the commit and the note of it")

    key = {"idempotency-key": "k9"}
    with monkeypatch.context() as patched:
        patched.setattr(idempotency_keys, "store_response", cut_off)
        first = await api.post("/webhooks", json={"url": "https://x.example/"}, headers=key)
    assert (first.status_code, first.headers["content-type"]) == (500, "application/problem+json")
    for seconds, kind in ((0, "in-progress"), (301, "outcome-unknown"), (80_000, "outcome-unknown")):
        await move_clock(seconds)
        again = await api.post("/webhooks", json={"url": "https://x.example/"}, headers=key)
        assert (again.status_code, again.json()["type"]) == (409, f"urn:postroom:problem:{kind}")
    assert len((await api.get("/webhooks")).json()["data"]) == 1


async def test_parallel_requests_with_one_idempotency_key_execute_once(
    api, mailbox, database, organization, owner
):
    answers = await asyncio.gather(
        *(api.post(f"/mailboxes/{mailbox}/sync", headers={"idempotency-key": "k"}) for _ in range(8))
    )
    assert {each.status_code for each in answers} <= {202, 409}
    cursor = await owner.execute("SELECT generation FROM work WHERE kind = 'sync'")
    assert await cursor.fetchall() == [(0,)]


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer x", "Basic eDp5", "Bearer pr_" + "a" * 43, "Bearer " + "p" * 5000]
)
async def test_invalid_api_key_is_rejected(served, given):
    async with build_client(served[0], {"authorization": given} if given is not None else {}) as stranger:
        answer = await stranger.get("/mailboxes")
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_api_key_grants_its_scopes_until_expiry_or_revocation(
    served, database, organization, mailbox, move_clock, monkeypatch
):
    from postroom.web.api import authentication

    monkeypatch.setattr(authentication, "CACHE_SECONDS", 0)
    made, key = await api_keys.create(database, organization, "x", frozenset({Scope.READ}), days=1)
    async with build_client(served[0], {"authorization": f"Bearer {key.reveal()}"}) as program:
        assert (await program.get("/mailboxes")).status_code == 200
        assert (await program.get("/ledger")).status_code == 403
        assert (await program.patch(f"/mailboxes/{mailbox}", json={})).status_code == 403
        await move_clock(86401)
        assert (await program.get("/mailboxes")).status_code == 401
    made, key = await api_keys.create(database, organization, "x", frozenset({Scope.READ}))
    async with build_client(served[0], {"authorization": f"Bearer {key.reveal()}"}) as program:
        assert (await program.get("/mailboxes")).status_code == 200
        assert await api_keys.revoke(database, organization, made.prefix) == 1
        assert (await program.get("/mailboxes")).status_code == 401
        assert await api_keys.revoke(database, organization, made.prefix) == 0


async def test_database_stores_only_key_digests(owner, database, organization):
    _, key = await api_keys.create(database, organization, "x", frozenset({Scope.READ}))
    cursor = await owner.execute("SELECT * FROM api_keys")
    assert key.reveal() not in str(await cursor.fetchall())


async def test_session_calls_may_write_only_from_our_origin(served, database, organization, mailbox):
    session = await create_session(database, organization, Role.ADMIN)
    async with build_client(served[0], {"cookie": f"postroom_session={session}"}) as browser:
        assert (await browser.get("/mailboxes")).status_code == 200
        assert (await browser.post(f"/mailboxes/{mailbox}/sync")).status_code == 403
        ours = {"origin": URL}
        assert (await browser.post(f"/mailboxes/{mailbox}/sync", headers=ours)).status_code == 202
        assert (await browser.get(f"{URL}/api")).status_code == 200
    reader = await members.add(database, organization, "r@example.org", role=Role.READER)
    await members.set_password(database, reader, Secret("correct horse battery"))


async def test_rate_limit_returns_retry_after(database, organization, tmp_path):
    async with (
        open_api_application(database, organization, tmp_path, per_minute=3) as (made, _),
        build_client(made, await create_key_header(database, organization)) as program,
    ):
        statuses = [(await program.get("/mailboxes")).status_code for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        assert int((await program.get("/mailboxes")).headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    "path, status",
    [
        ("/mailboxes?limit=0", 400),
        ("/mailboxes?limit=x", 400),
        ("/mailboxes?nonsense=1", 400),
        ("/mailboxes?cursor=!!", 400),
        ("/mailboxes?cursor=eyJ9", 400),
        ("/mailboxes/nonsense", 404),
        ("/mailboxes/00000000-0000-4000-8000-000000000000", 404),
        ("/threads/-1", 404),
        ("/threads/99999999999999999999999", 404),
        ("/messages?sort=subject", 400),
        ("/messages?cursor=eyJ9", 400),
        ("/documents?due=never", 400),
        ("/records?min=much", 400),
        ("/records?from=yesterday", 400),
        ("/nothing", 404),
    ],
)
async def test_invalid_input_returns_a_problem_document(api, path, status):
    answer = await api.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    reported = answer.json()
    assert (reported["status"], reported["type"].startswith("urn:postroom:problem:")) == (status, True)
    assert reported["detail"].endswith((".", "`", "json"))
