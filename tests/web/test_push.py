"""N1 to N3, N5 to N7: Graph's notifications over a real socket into a real database."""

import asyncio
import os
import secrets
import signal

import pytest

import databases
from postroom.flow.mail import push_rejections
from postroom.flow.mail.push import VERIFIED_PER_TURN, ReceivedPush, SubscriptionIndex, verify_pushes
from postroom.flow.mail.push_rejections import PushRejections
from postroom.model import Notification, ProviderName, Secret, WorkKind
from postroom.providers.graph.push import MAX_ITEMS
from postroom.store import health, notifications, roles, work
from postroom.store.work import FinishedWork
from postroom.web.health import find_problems
from web.push_server import insert_subscription, list_due_mailboxes, list_hinted_messages, open_push_server

PATHS = ("/webhooks/outlook", "/api/graph/notifications", "/api/graph/lifecycle")


@pytest.fixture
async def web(service_url):
    async with databases.open_pools(service_url) as database:
        yield database


@pytest.fixture
async def server(web):
    async with open_push_server(web) as running:
        yield running


@pytest.fixture
async def mailbox(make_mailbox, organization):
    return await make_mailbox(organization, provider="outlook")


@pytest.fixture
async def subscription(owner, organization, mailbox):
    return await insert_subscription(owner, organization, mailbox)


async def refusals(owner):
    """What the ledger says was refused: subscription, count, source."""
    for _ in range(200):
        cursor = await owner.execute(
            """
            SELECT entity_id, (payload->>'count')::int, personal->>'source'
            FROM ledger JOIN ledger_personal ON entry_id = id WHERE event_type = 'NOTIFICATION_REFUSED'
            """
        )
        if rows := await cursor.fetchall():
            return rows
        await asyncio.sleep(0.05)
    return []


@pytest.mark.parametrize("path", [*PATHS, "/webhooks/outlook/not-yet-a-row"])
async def test_handshake_echoes_the_decoded_token_as_plain_text(server, path):
    token = (
        "Validation: Testing client application reachability <b>for</b> subscription Request-Id: 522a+8e7e é"
    )
    answer = await server.client.post(path, params={"existing": "query", "validationToken": token})
    assert answer.status_code == 200
    assert answer.text == token
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_handshake_decodes_plus_as_space_exactly_once(server):
    answer = await server.client.post("/webhooks/outlook?validationToken=a+b%20c%2Bd%2520e")
    assert answer.text == "a b c+d%20e"


async def test_handshake_needs_no_database_and_limits_the_token(server, web):
    await web.engine_pool.close()
    assert (await server.client.post("/webhooks/outlook?validationToken=x")).text == "x"
    assert (await server.client.post(f"/webhooks/outlook?validationToken={'x' * 5000}")).status_code == 414


@pytest.mark.parametrize("path", PATHS)
async def test_every_path_accepts_a_genuine_notification(server, owner, subscription, path):
    for address in (path, f"{path}/{subscription.id}"):
        assert await server.push(address, subscription.item("m1")) == 202
    assert await list_due_mailboxes(owner) == {subscription.mailbox}
    assert await list_hinted_messages(owner, subscription.mailbox) == {"m1"}
    assert (await server.client.get(path)).status_code == 405


async def test_items_of_a_batch_are_judged_separately(
    server, owner, make_mailbox, organization, subscription
):
    other = await insert_subscription(
        owner, organization, await make_mailbox(organization, provider="outlook")
    )
    third = await insert_subscription(
        owner, organization, await make_mailbox(organization, provider="outlook")
    )
    status = await server.push(
        "/webhooks/outlook",
        subscription.item("m1"),
        subscription.item("m2", clientState="guessed"),
        other.item("m3", clientState=subscription.secret),
        third.item("m4", subscriptionId="unknown"),
        {"subscriptionId": 5, "clientState": ["x"]},
        third.item("m5"),
    )
    assert status == 202
    assert await list_due_mailboxes(owner) == {subscription.mailbox, third.mailbox}
    assert await list_hinted_messages(owner, subscription.mailbox) == {"m1"}
    assert await list_hinted_messages(owner, third.mailbox) == {"m5"}


async def test_wrong_secret_and_unknown_subscription_get_the_same_response(server, owner, subscription):
    wrong = [
        subscription.item("m", clientState="guessed"),
        subscription.item("m", clientState=None),
        subscription.item("m", clientState=""),
        subscription.item("m", subscriptionId="unknown"),
        {},
    ]
    answers = [await server.client.post("/webhooks/outlook", json={"value": [item]}) for item in wrong]
    answers.append(await server.client.post("/webhooks/outlook", json={"value": []}))
    assert {answer.status_code for answer in answers} == {401}
    assert len({(answer.text, str(sorted(set(answer.headers) - {"date"}))) for answer in answers}) == 1
    assert await list_due_mailboxes(owner) == set()


async def test_rejected_push_is_in_the_ledger_with_source_and_without_content(server, owner, subscription):
    await server.push(subscription.path, subscription.item("m", clientState="guessed-value"))
    assert await refusals(owner) == [(str(subscription.id), 1, "127.0.0.1")]
    cursor = await owner.execute("SELECT count(*) FROM ledger WHERE ledger::text LIKE '%%guessed%%'")
    assert await cursor.fetchone() == (0,)


async def test_push_without_subscription_is_in_the_operators_ledger(server, owner):
    await server.push("/webhooks/outlook", {"subscriptionId": "nobodys", "clientState": "guessed-value"})
    assert await refusals(owner) == [("outlook", 1, "127.0.0.1")]
    cursor = await owner.execute("SELECT count(*) FROM ledger WHERE ledger::text ~ 'guessed|nobodys'")
    assert await cursor.fetchone() == (0,)


async def test_rejections_are_written_later_if_the_database_is_down(
    web, owner, make_mailbox, make_organization
):
    """However many organizations they concern, and whichever of them fails."""
    operator = await make_organization()
    noted = PushRejections(web, operator)
    for _ in range(3):
        organization = await make_organization()
        found = await insert_subscription(owner, organization, await make_mailbox(organization))
        async with web.engine() as engine:
            [known] = await notifications.find_subscriptions(engine, [found.id], [])
        noted.count(known, ProviderName.OUTLOOK, "192.0.2.1")
    noted.count(None, ProviderName.GMAIL, "192.0.2.2")
    await owner.execute("ALTER TABLE ledger ADD CONSTRAINT none CHECK (false) NOT VALID")
    with pytest.raises(Exception, match="none"):
        await noted.write()
    await owner.execute("ALTER TABLE ledger DROP CONSTRAINT none")
    await noted.write()
    assert len(await refusals(owner)) == 4


async def test_a_day_of_forged_pushes_adds_a_bounded_number_of_entries(
    web, owner, make_organization, subscription
):
    """From as many sources as strangers like, to a known subscription and to unknown ones."""
    noted = PushRejections(web, await make_organization())
    async with web.engine() as engine:
        [known] = await notifications.find_subscriptions(engine, [subscription.id], [])
    seconds, pushes = 0.0, 0
    while seconds < 86_400:
        for number in range(500):
            noted.count(known, ProviderName.OUTLOOK, f"2001:db8:{number:x}::1")
            noted.count(None, ProviderName.GMAIL, f"2001:db8:{number:x}::2")
        pushes += 1000
        seconds += noted.compute_pause(await noted.write())
    counts = [count for _, count, _ in await refusals(owner)]
    assert len(counts) <= 1.1 * push_rejections.MAX_ENTRIES_PER_DAY
    assert sum(counts) == pushes, "every one is counted"


async def test_slow_body_times_out(server):
    reader, writer = await asyncio.open_connection(*server.url.removeprefix("http://").split(":"))
    writer.write(b"POST /webhooks/outlook HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
    assert (await asyncio.wait_for(reader.readline(), 60)).startswith(b"HTTP/1.1 408")
    writer.close()


async def test_notification_may_arrive_before_the_subscription_response(server, owner, organization, mailbox):
    early = await insert_subscription(owner, organization, mailbox, confirmed=False)
    assert await server.push("/webhooks/outlook", early.item("m")) == 401
    assert await server.push(early.path, early.item("m", clientState="guessed")) == 401
    assert await list_due_mailboxes(owner) == set()
    assert await server.push(early.path, early.item("m")) == 202
    assert await list_due_mailboxes(owner) == {mailbox}


async def test_secret_of_a_replaced_subscription_is_valid_for_seven_days(
    server, owner, organization, mailbox
):
    recent = await insert_subscription(owner, organization, mailbox, replaced_days=6.9)
    old = await insert_subscription(owner, organization, mailbox, replaced_days=7.1)
    assert await server.push(recent.path, recent.item("m")) == 202
    assert await server.push(old.path, old.item("m")) == 401


async def test_subscription_without_a_secret_accepts_nothing(server, owner, subscription):
    await owner.execute("UPDATE subscriptions SET client_state_sha256 = NULL")
    for secret in ("", None, subscription.secret):
        assert await server.push(subscription.path, subscription.item("m", clientState=secret)) == 401


async def test_account_in_two_organizations_is_queued_for_each_connected_one(
    server, owner, make_mailbox, other_organization, subscription
):
    twin = await make_mailbox(other_organization, provider="outlook")
    await owner.execute(
        "UPDATE mailboxes SET account_id = (SELECT account_id FROM mailboxes WHERE id = %s) WHERE id = %s",
        [subscription.mailbox, twin],
    )
    assert await server.push(subscription.path, subscription.item("m1")) == 202
    assert await list_due_mailboxes(owner) == {subscription.mailbox, twin}
    assert await list_hinted_messages(owner, twin) == {"m1"}
    await owner.execute("TRUNCATE work")
    await owner.execute("UPDATE mailboxes SET disconnected_at = now() WHERE id = %s", [subscription.mailbox])
    assert await server.push(subscription.path, subscription.item("m2")) == 202
    assert await list_due_mailboxes(owner) == {twin}


@pytest.mark.parametrize(
    "data, resource, expected",
    [
        ({"id": "AAMk="}, "Users/u/Messages/other", {"AAMk="}),
        (None, "Users/u/Messages/AAMk=", {"AAMk="}),
        ({}, "users('u')/messages('AAMk=')", {"AAMk="}),
        ({"id": "a\u0000b"}, None, set()),
        ({"id": "x" * 2000}, None, set()),
        (None, None, set()),
    ],
)
async def test_message_id_comes_from_resource_data_or_resource_path(
    server, owner, subscription, data, resource, expected
):
    item = subscription.item("x", resourceData=data, resource=resource)
    assert await server.push(subscription.path, item) == 202
    assert await list_hinted_messages(owner, subscription.mailbox) == expected
    assert await list_due_mailboxes(owner) == {subscription.mailbox}


OLD_SHAPE = {
    "tenantId": None,
    "organizationId": "84bd8158-6d4d-4958-8b9f-9d6445542f95",
    "resource": "",
    "sequence": None,
    "resourceData": {"@odata.type": "#microsoft.graph.message", "id": None},
    "encryptedContent": None,
}


@pytest.mark.parametrize("more", [{}, OLD_SHAPE], ids=["documented", "observed"])
@pytest.mark.parametrize(
    "event, column",
    [
        ("reauthorizationRequired", "reauthorization_requested_at"),
        ("subscriptionRemoved", "removal_reported_at"),
    ],
)
async def test_lifecycle_events_queue_the_subscription_with_the_reason(
    server, owner, subscription, event, column, more
):
    assert await server.push("/api/graph/lifecycle", subscription.lifecycle(event, **more)) == 202
    assert await list_due_mailboxes(owner, "subscribe") == {subscription.mailbox}
    cursor = await owner.execute(
        "SELECT reauthorization_requested_at IS NOT NULL, removal_reported_at IS NOT NULL FROM subscriptions"
    )
    reported = dict(
        zip(("reauthorization_requested_at", "removal_reported_at"), await cursor.fetchone(), strict=True)
    )
    assert [name for name, is_set in reported.items() if is_set] == [column]


@pytest.mark.parametrize("more", [{}, OLD_SHAPE], ids=["documented", "observed"])
async def test_missed_event_starts_a_sync_and_keeps_the_last_notification_time(
    server, web, owner, organization, subscription, more
):
    await owner.execute("UPDATE mailboxes SET last_synced_at = postroom_now() - interval '1 hour'")
    assert await server.push(subscription.path, subscription.lifecycle("missed", **more)) == 202
    assert await list_due_mailboxes(owner) == {subscription.mailbox}
    assert await list_due_mailboxes(owner, "subscribe") == set()
    async with web.transaction(organization) as connection:
        hints = await notifications.get_hints(connection, subscription.mailbox)
        cursor = await connection.execute(
            "SELECT extract(epoch FROM missed_until - missed_from)::float8 FROM notifications"
        )
        assert await cursor.fetchone() == (pytest.approx(3600, abs=60),)
        assert not hints.complete
        await notifications.clear_hints(connection, subscription.mailbox, hints)
        assert (await notifications.get_hints(connection, subscription.mailbox)).complete


async def test_hints_are_limited_and_a_sync_deletes_only_those_it_used(
    server, web, organization, subscription
):
    assert await server.push(subscription.path, subscription.item("m1"), subscription.item("m2")) == 202
    async with web.transaction(organization) as connection:
        used = await notifications.get_hints(connection, subscription.mailbox)
    assert used.message_ids == {"m1", "m2"}
    assert await server.push(subscription.path, *(subscription.item(f"n{n}") for n in range(5))) == 202
    async with web.transaction(organization) as connection:
        await notifications.clear_hints(connection, subscription.mailbox, used)
        left = await notifications.get_hints(connection, subscription.mailbox)
    assert left.message_ids == {f"n{n}" for n in range(5)}
    assert left.complete
    for start in range(0, 200, 10):
        await server.push(subscription.path, *(subscription.item(f"o{n}") for n in range(start, start + 10)))
    async with web.transaction(organization) as connection:
        full = await notifications.get_hints(connection, subscription.mailbox)
    assert len(full.message_ids) == notifications.MAX_HINTS
    assert not full.complete


async def test_notification_during_a_sync_queues_another_sync(server, service_url, subscription):
    await server.push(subscription.path, subscription.item("m1"))
    async with databases.session(service_url, roles.ENGINE) as connection:
        [lease] = (await work.claim(connection, [WorkKind.SYNC], batch=5, lease_seconds=60)).leases
        assert await server.push(subscription.path, subscription.item("m2")) == 202
        assert (await work.claim(connection, [WorkKind.SYNC], batch=5, lease_seconds=60)).leases == []
        await work.finish(connection, [FinishedWork(lease, again_after=900)])
        assert len((await work.claim(connection, [WorkKind.SYNC], batch=5, lease_seconds=60)).leases) == 1


async def test_subscription_and_mailbox_record_the_last_notification(server, owner, subscription):
    await server.push(subscription.path, subscription.item("m1"))
    for table in ("mailboxes", "subscriptions"):
        cursor = await owner.execute(f"SELECT last_notified_at > now() - interval '1 minute' FROM {table}")
        assert await cursor.fetchall() == [(True,)]


async def test_locked_row_does_not_delay_the_response(server, owner, subscription):
    async with owner.transaction():
        await owner.execute("SELECT FROM mailboxes FOR NO KEY UPDATE")
        await owner.execute("SELECT FROM subscriptions FOR NO KEY UPDATE")
        assert await server.push(subscription.path, subscription.item("m1")) == 202


async def test_oversized_body_is_rejected_without_reading_it(server):
    declared = await server.client.post("/webhooks/outlook", content=b"x" * (2**20 + 1))
    assert declared.status_code == 413
    reader, writer = await asyncio.open_connection(*server.url.removeprefix("http://").split(":"))
    writer.write(b"POST /webhooks/outlook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(20):
        writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 413")
    writer.close()


async def test_unreachable_database_returns_503_with_retry_after(server, web, subscription):
    await web.engine_pool.close()
    answer = await server.client.post(subscription.path, json={"value": [subscription.item("m")]})
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1


async def test_stuck_database_returns_503_and_accepts_the_retry(server, owner, subscription):
    async with owner.transaction():
        await owner.execute("LOCK TABLE work IN EXCLUSIVE MODE")
        statuses = await asyncio.gather(
            *(server.push(subscription.path, subscription.item(f"m{n}"), again=False) for n in range(20))
        )
        assert set(statuses) == {503}
    assert await server.push(subscription.path, subscription.item("m")) == 202
    assert await list_due_mailboxes(owner) == {subscription.mailbox}


@pytest.mark.skipif(databases.GIVEN != "", reason="the server may run elsewhere")
async def test_push_never_waits_for_a_frozen_database_connection(server, owner, subscription):
    """No statement ends and no cancellation is heard."""
    cursor = await owner.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    frozen = [row[0] for row in await cursor.fetchall()]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        pushes = [server.push(subscription.path, subscription.item(f"m{n}"), again=False) for n in range(30)]
        statuses = set(await asyncio.gather(*pushes))
        assert 503 in statuses
        assert statuses <= {202, 503}, "a connection opened meanwhile may store some of them"
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    assert await server.push(subscription.path, subscription.item("m")) == 202
    assert await list_due_mailboxes(owner) == {subscription.mailbox}


async def test_source_of_only_rejected_pushes_is_blocked_alone(web, owner, subscription):
    forged = subscription.item("m", clientState="guessed")
    async with open_push_server(web, trusted=("127.0.0.0/8",)) as server:
        statuses = [
            await server.push(subscription.path, *[forged] * 50, headers={"x-forwarded-for": "192.0.2.1"})
            for _ in range(10)
        ]
        assert statuses[0] == 401
        assert statuses[-1] == 429
        genuine = subscription.item("m")
        assert await server.push(subscription.path, genuine, headers={"x-forwarded-for": "192.0.2.2"}) == 202
        assert await server.push(subscription.path, genuine, headers={"x-forwarded-for": "192.0.2.1"}) == 429


async def test_wrong_items_of_one_batch_are_charged_one_by_one(web, subscription):
    forged, genuine = subscription.item("m", clientState="guessed"), subscription.item("m")
    async with open_push_server(web, trusted=("127.0.0.0/8",)) as server:
        for last_octet, batch, first in ((1, [forged] * 410, 401), (2, [genuine] + [forged] * 410, 202)):
            headers = {"x-forwarded-for": f"192.0.2.{last_octet}"}
            assert await server.push(subscription.path, *batch, headers=headers) == first
            assert await server.push(subscription.path, genuine, headers=headers) == 429


async def test_parallel_batches_of_a_forger_are_blocked_after_the_first(server, subscription):
    forged = [subscription.item("m", clientState="guessed")] * MAX_ITEMS
    statuses = await asyncio.gather(*(server.push(subscription.path, *forged) for _ in range(8)))
    assert set(statuses) == {401, 429}
    assert statuses.count(401) < statuses.count(429)


@pytest.mark.parametrize("item", ["{}", "1"])
async def test_body_of_countless_items_is_rejected_and_blocks_its_source(server, subscription, item):
    body = '{"value":[' + ",".join([item] * 300_000) + "]}"
    statuses = [(await server.client.post(subscription.path, content=body)).status_code for _ in range(2)]
    assert statuses == [401, 429]


async def test_other_tasks_run_while_a_large_batch_is_verified():
    notification = Notification(provider_subscription_id="unknown", client_state=Secret("guessed"))
    push = ReceivedPush(ProviderName.OUTLOOK, None, "192.0.2.1", [notification] * MAX_ITEMS)
    verification = asyncio.create_task(verify_pushes([push], SubscriptionIndex({}, {}), {}))
    turns = 0
    while not verification.done():
        turns += 1
        await asyncio.sleep(0)
    assert verification.result().verdicts[0].rejected == MAX_ITEMS
    assert turns >= MAX_ITEMS // VERIFIED_PER_TURN


async def test_forgers_behind_the_same_ip_address_do_not_block_the_provider(server, subscription):
    for _ in range(150):
        assert await server.push(subscription.path, subscription.item("m")) == 202
        assert await server.push(subscription.path, subscription.item("m", clientState="guessed")) == 401


@pytest.mark.parametrize(
    "trusted, forwarded, source",
    [
        ((), "192.0.2.1", "127.0.0.1"),
        (("10.0.0.0/8",), "192.0.2.1", "127.0.0.1"),
        (("127.0.0.1/32",), "192.0.2.1", "192.0.2.1"),
        (("127.0.0.1/32",), "203.0.113.9, 192.0.2.1:4711", "192.0.2.1"),
        (("127.0.0.1/32", "192.0.2.0/24"), "203.0.113.9, 192.0.2.1", "203.0.113.9"),
        (("127.0.0.1/32",), "203.0.113.9, [2001:db8::1]:80", "2001:db8::1"),
        (("127.0.0.1/32",), "203.0.113.9, unknown", "127.0.0.1"),
    ],
)
async def test_only_a_trusted_proxy_can_set_the_source(web, owner, subscription, trusted, forwarded, source):
    async with open_push_server(web, trusted=trusted) as server:
        forged = subscription.item("m", clientState="guessed")
        await server.push(subscription.path, forged, headers={"x-forwarded-for": forwarded})
        assert await refusals(owner) == [(str(subscription.id), 1, source)]


async def test_removed_mailbox_is_no_error(server, owner, subscription):
    await owner.execute("UPDATE mailboxes SET disconnected_at = now()")
    assert await server.push(subscription.path, subscription.item("m")) == 202
    assert await list_due_mailboxes(owner) == set()


async def test_parallel_pushes_are_all_stored(server, owner, make_mailbox, organization):
    subscriptions = [
        await insert_subscription(owner, organization, await make_mailbox(organization, provider="outlook"))
        for _ in range(30)
    ]
    statuses = await asyncio.gather(
        *(server.push(each.path, each.item(secrets.token_hex(4))) for each in subscriptions * 5)
    )
    assert set(statuses) == {202}
    assert await list_due_mailboxes(owner) == {each.mailbox for each in subscriptions}


async def test_work_that_is_overdue_is_reported(server, web, owner, subscription):
    await server.push(subscription.path, subscription.item("m"))
    assert not any("overdue" in problem for problem in find_problems(await health.read_health(web)))
    await owner.execute("UPDATE work SET due_at = due_at - interval '1 hour'")
    found = await health.read_health(web)
    assert [each.kind for each in found.work] == ["sync"]
    assert any("overdue" in problem for problem in find_problems(found))
