"""Notices announce each condition once, remind daily, say when it ended, and respect quiet hours."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from email.utils import parseaddr
from io import StringIO
from ipaddress import ip_network
from secrets import token_bytes

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from postroom import logs
from postroom.errors import PermanentError
from postroom.flow.outbound import backoff, send_notices
from postroom.flow.outbound import notices as flow
from postroom.flow.outbound.notices import DestinationInput
from postroom.flow.outbound.send_notices import NoticeContext
from postroom.model import Secret, WorkKind
from postroom.notice_types import NoticeKind, NoticeMedium
from postroom.providers.webhook_sender import WebhookSender
from postroom.store import notices as stored
from postroom.store import work
from postroom.store.notices import NoticeSelection
from web.push_server import serve
from web.sign_in_support import SEALER

HOUR = 3600
DAY = 24 * HOUR
LOOPBACK = (ip_network("127.0.0.0/8"),)
URL = "https://post.example.org"


@pytest.fixture
async def receiver():
    """An incoming webhook of Slack or Teams: its URL, the bodies it got, and the status of its answers."""
    bodies, statuses = [], {"now": 200}

    async def take(request):
        bodies.append(json.loads(await request.body()))
        return Response(status_code=statuses["now"])

    async with serve(Starlette(routes=[Route("/services/T0/secret", take, methods=["POST"])])) as url:
        yield f"{url}/services/T0/secret", bodies, statuses


@pytest.fixture
def add(context, organization):
    async def add(medium=NoticeMedium.EMAIL, *, url=None, addresses=("ap@example.com",), **selected):
        given = DestinationInput(
            "Accounts",
            addresses if medium is NoticeMedium.EMAIL else (),
            Secret(url) if url else None,
            NoticeSelection(**selected),
        )
        return await flow.add(context, organization, medium, given)

    return add


@pytest.fixture
def check(database, context, move_clock):
    """Let a worker look at every destination now, though its next check is later."""

    async def check(context=context):
        await move_clock(send_notices.CHECK_SECONDS)
        await run_due(database, context)

    return check


async def run_due(database, context):
    async with database.engine() as connection:
        claim = await work.claim(connection, [WorkKind.SEND_NOTICES], batch=9, lease_seconds=60)
    for lease in claim.leases:
        if result := await send_notices.run(context, lease):
            async with database.engine() as connection:
                await work.finish(connection, [work.FinishedWork(lease, result.again_after)])


async def shown(database, organization, destination):
    async with database.transaction(organization) as connection:
        return await stored.get(connection, destination.id)


async def lose_consent(owner, mailbox):
    await owner.execute(
        """
        UPDATE mailboxes SET health = 'token_refresh_failed', health_cause = 'consent_lost',
            health_since = postroom_now() WHERE id = %s
        """,
        [mailbox],
    )


async def regain_consent(owner, mailbox):
    await owner.execute(
        "UPDATE mailboxes SET health = 'active', health_cause = NULL WHERE id = %s", [mailbox]
    )


async def add_document(owner, organization):
    await owner.execute(
        """
        WITH stored AS (
            INSERT INTO blobs (organization_id, sha256, size) VALUES (%s, %s, 1) RETURNING *
        )
        INSERT INTO documents (organization_id, pipeline, sha256, media_type, state)
        SELECT organization_id, 'invoices', sha256, 'application/pdf', 'needs_review' FROM stored
        """,
        [organization, token_bytes(32)],
    )


def subjects(smtp):
    return [mail.message["subject"] for mail in smtp.accepted]


async def test_condition_is_announced_once_reminded_daily_and_resolved_once(
    add, check, owner, organization, make_mailbox, smtp, move_clock
):
    mailbox = await make_mailbox(organization, address="anna@example.com")
    await add()
    await check()
    assert smtp.accepted == []
    await lose_consent(owner, mailbox)
    for _ in range(3):
        await check()
    [first] = smtp.accepted
    assert (first.sender, first.recipients) == ("postroom@example.org", ["ap@example.com"])
    assert first.message["subject"] == "[Postroom] Reconnect required"
    assert first.message["auto-submitted"] == "auto-generated"
    assert "Reconnect required: anna@example.com" in first.text
    assert "expired or was revoked" in first.text
    assert "Reconnect the mailbox" in first.text
    assert f"{URL}/mailboxes/{mailbox}" in first.text

    await move_clock(DAY)
    await check()
    await check()
    await regain_consent(owner, mailbox)
    await check()
    await check()
    assert subjects(smtp) == [
        "[Postroom] Reconnect required",
        "[Postroom] Reminder: Reconnect required",
        "[Postroom] Resolved: Reconnect required",
    ]
    assert len({mail.message["message-id"] for mail in smtp.accepted}) == 3
    cursor = await owner.execute("SELECT count(*) FROM notice_conditions")
    assert await cursor.fetchone() == (0,)


async def add_webhooks(owner, organization):
    """One that was disabled, one that fails, and one that a person paused."""
    await owner.execute(
        """
        INSERT INTO webhooks (organization_id, url, key_id, sealed_secret, position, failing_since,
            disabled_at, disabled_because)
        VALUES (%(id)s, 'https://stopped.example.org/path?key=hidden', '1', '', 0, postroom_now(),
                postroom_now(), 'no delivery was accepted'),
            (%(id)s, 'https://failing.example.org/', '1', '', 0, postroom_now(), NULL, NULL),
            (%(id)s, 'https://paused.example.org/', '1', '', 0, NULL, postroom_now(), 'disabled by hand')
        """,
        {"id": organization},
    )


async def test_every_kind_of_condition_is_announced_in_one_notice(
    add, check, owner, organization, make_mailbox, smtp, move_clock
):
    consent, differs, stuck, healthy = [
        await make_mailbox(organization, address=f"{name}@example.com")
        for name in ("consent", "differs", "stuck", "healthy")
    ]
    await add_document(owner, organization)
    await add_webhooks(owner, organization)
    for mailbox, missing in ((differs, 2), (healthy, 0)):
        await owner.execute(
            """
            INSERT INTO audits (organization_id, mailbox_id, started_at, listed, missing, extra, different,
                missing_ids, extra_ids, different_ids)
            VALUES (%s, %s, postroom_now(), 9, %s, 1 * sign(%s), 0, '{}', '{}', '{}')
            """,
            [organization, mailbox, missing, missing],
        )
    await owner.execute(
        """
        INSERT INTO work (organization_id, kind, subject, due_at, attempts, last_error)
        VALUES (%s, 'audit', %s, postroom_now() + interval '1 year', 3, 'no answer')
        """,
        [organization, str(stuck)],
    )
    await lose_consent(owner, consent)
    await add(review_hours=8)
    await check()
    await move_clock(7 * HOUR)
    assert "Review overdue" not in smtp.accepted[0].text, "not over its limit yet"
    await move_clock(HOUR)
    await check()
    both = "".join(mail.text for mail in smtp.accepted)
    assert subjects(smtp)[0].endswith(" and 3 more"), "what is new goes into one message"
    assert len(smtp.accepted) == 2
    assert both.count("Reconnect required: consent@example.com") == 1
    assert "Audit failed: differs@example.com" in both
    assert "missing, extra or different: 3." in both
    assert "Audit failed: stuck@example.com" in both
    assert "failed repeatedly" in both
    assert "Webhook stopped: stopped.example.org" in both
    assert "Webhook stopped: failing.example.org" in both
    assert "more than 8 hours: 1." in both
    assert f"{URL}/documents?state=needs_review" in both
    for absent in ("hidden", "/path", "healthy@", "paused."):
        assert absent not in both


async def test_review_queue_below_its_limit_is_not_announced(
    add, check, owner, organization, smtp, move_clock
):
    await add_document(owner, organization)
    await add(kinds=[NoticeKind.REVIEW_QUEUE], review_hours=24)
    await move_clock(23 * HOUR)
    await check()
    assert smtp.accepted == []
    await move_clock(HOUR)
    await check()
    assert subjects(smtp) == ["[Postroom] Review overdue"]


async def test_only_selected_kinds_are_announced(add, check, owner, organization, make_mailbox, smtp):
    await lose_consent(owner, await make_mailbox(organization))
    await add(kinds=[NoticeKind.AUDIT_FAILED])
    await check()
    assert smtp.accepted == []


async def local_time(owner, zone, *, hours):
    """The local time of the database's clock this many hours from now, as quiet hours are written."""
    cursor = await owner.execute("SELECT postroom_now() AT TIME ZONE %s", [zone])
    [row] = await cursor.fetchall()
    return f"{row[0] + timedelta(hours=hours):%H:%M}"


async def test_quiet_hours_of_the_time_zone_delay_what_lasts_and_drop_what_ended(
    add, check, database, owner, organization, make_mailbox, smtp, move_clock
):
    zone = "Pacific/Auckland"
    brief, lasting = [
        await make_mailbox(organization, address=f"{name}@example.com") for name in ("brief", "lasting")
    ]
    quiet = {hour: await local_time(owner, zone, hours=hours) for hour, hours in (("from", -1), ("until", 8))}
    destination = await add(quiet_from=quiet["from"], quiet_until=quiet["until"], time_zone=zone)
    assert (await shown(database, organization, destination)).is_quiet
    await lose_consent(owner, brief)
    await lose_consent(owner, lasting)
    await check()
    await move_clock(4 * HOUR)
    await regain_consent(owner, brief)
    await check()
    assert smtp.accepted == []
    await move_clock(4 * HOUR)
    await check()
    [sent] = smtp.accepted
    assert "lasting@example.com" in sent.text
    assert "brief@example.com" not in sent.text
    assert not (await shown(database, organization, destination)).is_quiet


async def test_quiet_hours_end_wakes_the_worker_in_time(add, database, owner, organization, make_mailbox):
    """The next check is when quiet hours end, if that is sooner than the usual one."""
    await lose_consent(owner, await make_mailbox(organization))
    destination = await add(quiet_from=await local_time(owner, "UTC", hours=-3), quiet_until="00:00")
    for minutes, expected in ((23 * 60 + 59, 60), (12 * 60, 12 * HOUR)):
        cursor = await owner.execute(
            """
            UPDATE clock_offset SET ahead = ahead + date_trunc('day', postroom_now() AT TIME ZONE 'UTC')
                + interval '1 day' + %s * interval '1 minute' - postroom_now() AT TIME ZONE 'UTC'
            RETURNING 1
            """,
            [minutes],
        )
        assert await cursor.fetchone()
        await owner.execute("UPDATE notice_destinations SET quiet_from = '01:00'")
        left = (await shown(database, organization, destination)).pause_seconds
        assert expected - 60 <= left <= expected


async def test_condition_that_returns_in_quiet_hours_is_not_announced_again(
    add, check, owner, organization, make_mailbox, smtp
):
    mailbox = await make_mailbox(organization)
    await lose_consent(owner, mailbox)
    await add()
    await check()
    await owner.execute(
        """
        UPDATE notice_destinations SET
            quiet_from = (postroom_now() AT TIME ZONE 'UTC')::time - interval '1 h',
            quiet_until = (postroom_now() AT TIME ZONE 'UTC')::time + interval '2 h'
        """
    )
    await regain_consent(owner, mailbox)
    await check()
    await lose_consent(owner, mailbox)
    await check()
    await owner.execute("UPDATE notice_destinations SET quiet_from = NULL, quiet_until = NULL")
    await check()
    assert len(smtp.accepted) == 1


async def test_failing_destination_backs_off_and_blocks_no_other(
    add, check, database, owner, organization, make_mailbox, smtp, receiver, move_clock
):
    url, bodies, statuses = receiver
    statuses["now"] = 500
    failing = await add(NoticeMedium.SLACK, url=url)
    await add()
    await lose_consent(owner, await make_mailbox(organization))
    await check()
    row = await shown(database, organization, failing)
    assert (row.last_error, row.attempts, row.last_sent_at) == ("the receiver returned status 500", 1, None)
    assert 0 < row.pause_seconds <= send_notices.FIRST_WAIT_SECONDS
    assert len(smtp.accepted) == 1, "the other destination got its notice"
    for _ in range(5):
        await move_clock(backoff.LONGEST_WAIT_SECONDS)
        await check()
    attempts = (await shown(database, organization, failing)).attempts
    assert attempts == len(bodies) == 6
    statuses["now"] = 200
    await move_clock(backoff.LONGEST_WAIT_SECONDS)
    await check()
    row = await shown(database, organization, failing)
    assert (row.last_error, row.failing_since, row.attempts) == (None, None, 0)
    assert row.last_sent_at


async def test_slack_and_teams_get_the_shapes_that_they_document(
    add, check, owner, organization, make_mailbox, receiver
):
    url, bodies, _ = receiver
    mailbox = await make_mailbox(organization, address="a&b<c>@example.com")
    await lose_consent(owner, mailbox)
    await add(NoticeMedium.SLACK, url=url)
    await check()
    await add(NoticeMedium.TEAMS, url=url)
    await check()
    slack, teams = bodies
    assert slack["text"] == "Postroom: Reconnect required"
    [section, footer] = slack["blocks"]
    assert (section["type"], section["text"]["type"]) == ("section", "mrkdwn")
    assert "*Reconnect required: a&amp;b&lt;c&gt;@example.com*" in section["text"]["text"]
    assert f"<{URL}/mailboxes/{mailbox}|Mailbox>" in section["text"]["text"]
    assert footer["type"] == "context"

    assert teams["type"] == "message"
    [attachment] = teams["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert card["body"][0]["text"] == "Reconnect required: a&b<c>@example.com"
    [action] = [block["actions"][0] for block in card["body"] if block["type"] == "ActionSet"]
    assert (action["type"], action["url"]) == ("Action.OpenUrl", f"{URL}/mailboxes/{mailbox}")


async def test_many_conditions_fit_into_one_message(add, check, owner, organization, make_mailbox, receiver):
    url, bodies, _ = receiver
    for _ in range(60):
        await lose_consent(owner, await make_mailbox(organization))
    await add(NoticeMedium.TEAMS, url=url)
    await check()
    await check()
    [body] = bodies
    assert len(json.dumps(body)) < 28_000
    assert "45 more: " in json.dumps(body)


async def test_two_workers_at_once_send_one_notice(
    add, database, context, owner, organization, make_mailbox, smtp, move_clock
):
    await lose_consent(owner, await make_mailbox(organization))
    await add()
    await move_clock(send_notices.CHECK_SECONDS)
    await asyncio.gather(*(run_due(database, context) for _ in range(4)))
    assert len(smtp.accepted) == 1


async def test_notice_with_unknown_result_is_sent_once_more_with_the_same_id(
    add, check, database, context, owner, organization, make_mailbox, smtp
):
    """A worker that ends after the send and before the commit leaves a claim without a result."""

    class Killed(BaseException):
        pass

    async def send_and_die(mail):
        await context.send_mail(mail)
        raise Killed

    await lose_consent(owner, await make_mailbox(organization))
    destination = await add()
    dying = replace(context, send_mail=send_and_die)
    for _ in range(2):
        with pytest.raises(Killed):
            await check(dying)
    await check()
    await check()
    assert len({mail.message["message-id"] for mail in smtp.accepted}) == 1
    assert len(smtp.accepted) == 2, "at most one duplicate"
    assert "result is unknown" in (await shown(database, organization, destination)).last_error


async def test_destination_that_is_removed_meanwhile_is_forgotten(
    add, check, context, owner, organization, smtp, make_mailbox
):
    destination = await add()
    await lose_consent(owner, await make_mailbox(organization))
    await flow.remove(context, organization, destination)
    await check()
    assert smtp.accepted == []
    cursor = await owner.execute("SELECT count(*) FROM work WHERE kind = 'send_notices'")
    assert await cursor.fetchone() == (0,)
    cursor = await owner.execute(
        "SELECT event_type, payload::text FROM ledger WHERE entity_type = 'notice_destination' ORDER BY id"
    )
    assert await cursor.fetchall() == [
        ("NOTICE_DESTINATION_ADDED", '{"medium": "email"}'),
        ("NOTICE_DESTINATION_REMOVED", '{"medium": "email"}'),
    ]


async def test_end_of_a_condition_is_not_announced_if_its_mailbox_is_gone(
    add, check, owner, organization, make_mailbox, smtp
):
    mailbox = await make_mailbox(organization)
    await lose_consent(owner, mailbox)
    await add()
    await check()
    await owner.execute("UPDATE mailboxes SET disconnected_at = postroom_now() WHERE id = %s", [mailbox])
    await check()
    assert len(smtp.accepted) == 1
    cursor = await owner.execute("SELECT count(*) FROM notice_conditions")
    assert await cursor.fetchone() == (0,)


async def test_conditions_of_another_organization_are_invisible(
    add, check, owner, other_organization, make_mailbox, smtp
):
    await lose_consent(owner, await make_mailbox(other_organization))
    await add_document(owner, other_organization)
    await add(review_hours=0.25)
    await check()
    await check()
    assert smtp.accepted == []


async def test_private_addresses_are_refused_for_slack_as_for_webhooks(
    database, organization, owner, make_mailbox, check, receiver
):
    url, bodies, _ = receiver
    strict = NoticeContext(database, SEALER, WebhookSender(()).post, None, URL)
    given = DestinationInput("", (), Secret(url), NoticeSelection())
    with pytest.raises(PermanentError, match="use an https URL"):
        await flow.add(strict, organization, NoticeMedium.SLACK, given)
    inside = replace(given, url=Secret("https://127.0.0.1:1/services/T0"))
    destination = await flow.add(strict, organization, NoticeMedium.SLACK, inside)
    await lose_consent(owner, await make_mailbox(organization))
    await check(strict)
    assert "private IP address" in (await shown(database, organization, destination)).last_error
    assert bodies == []


async def test_log_names_no_address(add, check, owner, organization, make_mailbox, smtp):
    written = StringIO()
    logs.configure("worker", level="debug", style="json", stream=written)
    smtp.verdict = lambda _recipient: 550
    await lose_consent(owner, await make_mailbox(organization, address="anna@example.com"))
    destination = await add()
    assert parseaddr(destination.addresses[0])[1] == "ap@example.com"
    await check()
    assert "notices.not_sent" in written.getvalue()
    assert "@" not in written.getvalue()
