"""W4: metrics are true, for those who may read them, and known to the dashboard and the alerts."""

import json
import re
from pathlib import Path

import httpx2
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from postroom.model import Secret, WorkKind
from postroom.store import feed, quota_usage, work
from postroom.store.work import WorkRequest
from postroom.web import app
from store.table_filler import TableFiller
from web.sign_in_support import URL, build_site

ROOT = Path(__file__).parents[2]


def client_of(database, organization, *, client=("127.0.0.1", 1), **options):
    made = app.create(build_site(database, organization), **options)
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(made, client=client), base_url=URL)


@pytest.fixture
async def scrape(database, organization):
    async with client_of(database, organization) as client:

        async def scrape():
            answer = await client.get("/metrics")
            assert answer.status_code == 200, answer.text
            return {
                (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
                for family in text_string_to_metric_families(answer.text)
                for sample in family.samples
            }

        yield scrape


async def test_metrics_match_the_database(scrape, owner, database, organization, make_mailbox):
    await make_mailbox(organization, provider="gmail")
    lost = await make_mailbox(organization, provider="outlook")
    await owner.execute(
        "UPDATE mailboxes SET health = 'token_refresh_failed', health_cause = 'consent_lost' WHERE id = %s",
        [lost],
    )
    await owner.execute(
        """
        INSERT INTO subscriptions (organization_id, mailbox_id, resource, notification_url, replaced_at,
            is_silent)
        VALUES (%s, %s, 'mail', 'https://post.example.org/', postroom_now(), true)
        """,
        [organization, lost],
    )
    async with database.engine() as connection:
        await work.enqueue(
            connection,
            [
                WorkRequest(organization, WorkKind.SYNC, "a"),
                WorkRequest(organization, WorkKind.SYNC, "b", delay=60),
            ],
        )
    async with database.transaction(organization) as connection:
        await feed.append_event(connection, "document.changed", "document", "d")
        await feed.assign_positions(connection)
    found = await scrape()
    assert found["postroom_mailboxes", "active", "gmail"] == 1
    assert found["postroom_mailboxes", "token_refresh_failed", "outlook"] == 1
    assert found["postroom_mailbox_problems", "consent_lost", "outlook"] == 1
    assert found["postroom_silent_subscriptions", "outlook"] == 1
    assert found["postroom_work", "sync", "due"] == 1
    assert found["postroom_work", "sync", "waiting"] == 1
    assert found["postroom_work_oldest_due_seconds", "sync"] > 0
    assert found["postroom_events_total",] == 1
    assert found["postroom_database_up",] == 1
    assert found["postroom_web_processes",] == 1


async def test_metrics_are_measured_once_a_minute_for_all_processes(
    scrape, database, organization, make_mailbox, move_clock
):
    await make_mailbox(organization, provider="gmail")
    before = await scrape()
    await make_mailbox(organization, provider="outlook")
    async with client_of(database, organization) as client:  # another process
        assert 'provider="outlook"' not in (await client.get("/metrics")).text
    await move_clock(61)
    found = await scrape()
    assert ("postroom_mailboxes", "active", "outlook") not in before
    assert found["postroom_mailboxes", "active", "outlook"] == 1


async def test_changes_without_push_and_audit_differences_are_measured(
    scrape, owner, organization, other_organization, move_clock
):
    filling = TableFiller(owner, organization)
    await filling.fill()
    await owner.execute(
        """
        UPDATE mailboxes SET connected_at = now() - interval '2 days',
            last_notified_at = now() - interval '1 day'
        """
    )
    await owner.execute("UPDATE cursors SET completed_at = now() - interval '1 day'")
    await owner.execute(
        """
        INSERT INTO ledger (organization_id, event_type, entity_type, entity_id, payload, sha256, mac)
        SELECT organization_id, 'AUDIT_COMPLETED', 'mailbox', id::text, '{"missing": 3}', sha256('x'),
            sha256('x') || '12345678'
        FROM mailboxes
        """
    )
    found = await scrape()
    assert found["postroom_mailboxes_changed_without_push", "gmail"] == 1
    assert found["postroom_audit_missing_messages", "gmail"] == 3
    await owner.execute("UPDATE mailboxes SET last_notified_at = now()")
    await move_clock(61)
    assert ("postroom_mailboxes_changed_without_push", "gmail") not in await scrape()


async def test_quota_and_latency_are_measured(scrape, owner, database, organization):
    filling = TableFiller(owner, organization)
    await filling.fill()
    mailbox = filling.whole["mailboxes"]["id"]
    async with database.transaction(organization) as connection:
        for share in (0.005, 0.75, 0.5):
            await quota_usage.record_share(connection, mailbox, share)
    await owner.execute("UPDATE quota_usage SET minute = now() - interval '1 day' WHERE share = 1")
    await owner.execute(
        "UPDATE messages SET received_at = connected_at + interval '1 s', created_at = connected_at"
        " + interval '3 s' FROM mailboxes"
    )
    found = await scrape()
    assert found["postroom_quota_used_ratio", "gmail"] == 0.75
    assert found["postroom_latency_seconds", "gmail"] == 2


async def test_requests_are_counted_by_route_not_path(scrape):
    await scrape()
    found = await scrape()
    assert found["postroom_http_requests_total", "GET", "/metrics", "200"] >= 1


async def test_metrics_without_the_database(database, organization):
    async with client_of(database, organization) as client:
        await database.engine_pool.close()
        answer = await client.get("/metrics")
    assert (answer.status_code, "postroom_database_up 0.0" in answer.text) == (200, True)


@pytest.mark.parametrize(
    "client, headers, token, status",
    [
        (("127.0.0.1", 1), {}, None, 200),
        (("10.0.0.1", 1), {}, None, 401),
        (("127.0.0.1", 1), {"x-forwarded-for": "10.0.0.1"}, None, 401),
        (("10.0.0.1", 1), {"authorization": "Bearer good"}, "good", 200),
        (("127.0.0.1", 1), {"authorization": "Bearer bad"}, "good", 401),
        (("127.0.0.1", 1), {}, "good", 401),
    ],
)
async def test_metrics_need_loopback_or_the_token(database, organization, client, headers, token, status):
    given = {"metrics_token": Secret(token)} if token else {}
    async with client_of(database, organization, client=client, **given) as asking:
        assert (await asking.get("/metrics", headers=headers)).status_code == status


async def test_dashboard_and_alerts_use_existing_metrics(database, organization, owner):
    filling = TableFiller(owner, organization)
    await filling.fill()
    async with client_of(database, organization) as client:
        await client.get("/healthz")
        text = (await client.get("/metrics")).text
    known = set(re.findall(r"^# HELP (\S+)", text, re.MULTILINE))
    known |= {f"{name}_bucket" for name in known} | {f"{name}_total" for name in known}
    board = json.loads((ROOT / "deploy/grafana/postroom.json").read_text())
    rules = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())["groups"][0]["rules"]
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [rule["expr"] for rule in rules]
    names = {name for expression in asked for name in re.findall(r"\bpostroom_[a-z_]+", expression)}
    assert len(names) > 15
    assert names - known <= {"postroom_streams"}
    # What the database knows comes from every web process alike: it is taken once, by `max`.
    of_each = r"postroom_(http_|streams|database_up)"
    for expression in asked:
        for found in re.finditer(r"\bpostroom_[a-z_]+", expression):
            once = re.search(r"max( by \([a-z, ]+\) )?\((rate\()?$", expression[: found.start()])
            assert once or re.match(of_each, found[0]), expression
    assert all(rule["annotations"]["summary"] for rule in rules)
    assert {each["alert"].removeprefix("Postroom") for each in rules} >= {
        "ChangesWithoutPush", "AuditFoundMissing", "BacklogOld", "TokenRefreshFailing", "QuotaNear"
    }  # fmt: skip
