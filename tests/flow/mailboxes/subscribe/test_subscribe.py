"""S1, S2, S3, S5: every connected mailbox has one push subscription, whatever happens to it."""

import asyncio
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import pairwise
from uuid import UUID, uuid4

import httpx2

from flow.mailboxes.subscribe.conftest import only_graph
from flow.mailboxes.subscribe.subscribed_mailbox import DAY, HOUR, insert_mailbox
from postroom.errors import InvalidGrant, OperatorError, TransientError
from postroom.flow.mailboxes import subscribe
from postroom.flow.mailboxes.tokens import AccessTokens
from postroom.model import LifecycleEvent, ProviderName
from postroom.store import notifications, subscriptions
from postroom.store.subscriptions import Subscription
from providers.receiver import receiving


async def test_a_connected_mailbox_gets_its_subscription(subscribed):
    assert await subscribed.run() == []
    await subscribed.assert_one_live()
    assert await subscribed.events() == ["SUBSCRIPTION_CREATED"]
    assert await subscribed.health() == ("active", None)
    row = await subscribed.live_row()
    assert timedelta(days=6) < datetime.fromisoformat(row["expires_at"]) - datetime.fromisoformat(
        row["confirmed_at"]
    )


@only_graph
async def test_the_row_with_its_secret_is_there_before_the_provider_asks_us_anything(subscribed):
    """N3: a notification may overtake the provider's answer."""
    seen = []

    async def look(path):
        row = next(row for row in await subscribed.rows() if path.split("?")[0].endswith(row["id"]))
        seen.append((row["confirmed_at"], len(row["client_state_sha256"])))

    subscribed.receiver.before_handshake = look
    await subscribed.run()
    assert seen == [(None, 66)] * 2, "the handshakes of the two addresses"
    subscribed.sim.deliver(subscribed.contract.address, kind="plain")
    await asyncio.to_thread(subscribed.sim.move_clock, 2)
    push = await asyncio.wait_for(subscribed.receiver.pushes.get(), 30)
    [notice, *_] = subscribed.contract.provider.push.read(push)
    digest = (await subscribed.live_row())["client_state_sha256"]
    assert digest == "\\x" + sha256(notice.client_state.reveal().encode()).hexdigest()


async def test_it_is_renewed_when_due_and_lasts_for_weeks(subscribed):
    await subscribed.run()
    for _ in range(21):
        await subscribed.move(DAY)
        assert await subscribed.work_off() == []
        await subscribed.assert_one_live()
    events = await subscribed.events()
    assert set(events[1:]) == {"SUBSCRIPTION_RENEWED"}
    assert len(events) - 1 in {20, 21, 22}, "daily"


async def test_a_worker_that_was_down_for_eight_days_recreates_it_and_marks_the_old_one(subscribed):
    await subscribed.run()
    await subscribed.move(8 * DAY)
    assert await subscribed.work_off() == []
    await subscribed.assert_one_live()
    if subscribed.contract.provider.name is ProviderName.OUTLOOK:
        old, _ = await subscribed.rows()
        assert (old["status"], bool(old["replaced_at"])) == ("expired", True)
        assert (await subscribed.events())[1:] == ["SUBSCRIPTION_EXPIRED", "SUBSCRIPTION_RECREATED"]
        cursor = await subscribed.owner.execute("SELECT count(*) FROM work WHERE kind = 'sync'")
        assert await cursor.fetchone() == (1,), "what was missed meanwhile is fetched"
    assert await subscribed.health() == ("active", None)


@only_graph
async def test_one_that_vanished_unnoticed_is_recreated_within_a_day_with_a_new_secret(subscribed):
    """The provider removed it, and the notification about it was lost."""
    await subscribed.run()
    first = (await subscribed.live_row())["client_state_sha256"]
    subscribed.sim.fault("push_lost", mailbox=subscribed.contract.address, times=1)
    subscribed.sim.post(f"mailboxes/{subscribed.contract.address}/lifecycle", event="subscriptionRemoved")
    assert subscribed.remote_subscriptions() == []
    await subscribed.move(DAY)
    assert await subscribed.work_off() == []
    await subscribed.assert_one_live()
    assert len(subscribed.remote_subscriptions()) == 1
    assert (await subscribed.live_row())["client_state_sha256"] != first


@only_graph
async def test_a_lost_one_that_was_proven_makes_a_sync_due_even_if_no_new_one_can_be_created(subscribed):
    await subscribed.run()
    await subscribed.owner.execute("UPDATE subscriptions SET proven_since = postroom_now()")
    subscribed.sim.post(f"mailboxes/{subscribed.contract.address}/lifecycle", event="subscriptionRemoved")
    subscribed.sim.fault(
        "error", status=403, mailbox=subscribed.contract.address, endpoint="subscriptions.create"
    )
    await subscribed.run()
    assert [row["status"] for row in await subscribed.rows()] == ["removed"]
    cursor = await subscribed.owner.execute("SELECT due_at <= postroom_now() FROM work WHERE kind = 'sync'")
    assert await cursor.fetchall() == [(True,)]


@only_graph
async def test_a_removed_one_is_recreated_at_once_even_just_after_it_was_created(subscribed):
    await subscribed.run()
    subscribed.sim.post(f"mailboxes/{subscribed.contract.address}/lifecycle", event="subscriptionRemoved")
    assert subscribed.remote_subscriptions() == []
    await subscribed.run()
    await subscribed.assert_one_live()
    old, _ = await subscribed.rows()
    assert old["status"] == "removed"
    assert (await subscribed.events())[1:] == ["SUBSCRIPTION_REMOVED", "SUBSCRIPTION_RECREATED"]


@only_graph
async def test_renewals_keep_ten_minutes_apart_however_often_the_provider_asks(subscribed):
    await subscribed.run()
    await subscribed.move(HOUR)
    for _ in range(4):
        assert await subscribed.run() == []
        await subscribed.move(240)
        await subscribed.work_off()
    calls = subscribed.calls("subscriptions.update")
    renewals = [datetime.fromisoformat(call["time"]) for call in calls]
    assert len(renewals) >= 2
    assert min(b - a for a, b in pairwise(renewals)) >= timedelta(minutes=10), calls
    assert subscribed.calls("subscriptions.reauthorize") == []
    assert renewals[0] - datetime.fromisoformat(
        subscribed.calls("subscriptions.create")[0]["time"]
    ) >= timedelta(minutes=10)


async def require_reauthorization(subscribed) -> None:
    """What the push endpoint does with the lifecycle event."""
    row = await subscribed.live_row()
    async with subscribed.database.engine() as connection:
        await notifications.record_lifecycle_events(
            connection, [(UUID(row["id"]), LifecycleEvent.REAUTHORIZATION_REQUIRED)]
        )
    await subscribed.run()


@only_graph
async def test_a_request_to_reauthorize_renews_at_once_but_not_in_a_loop(subscribed):
    await subscribed.run()
    await subscribed.move(5)
    await require_reauthorization(subscribed)
    assert len(subscribed.calls("subscriptions.update")) == 1, "however recent the creation is"
    assert await subscribed.due_in() > 0.9 * DAY
    for _ in range(3):
        await subscribed.move(1)
        await require_reauthorization(subscribed)
    assert len(subscribed.calls("subscriptions.update")) == 1, "a provider that is never content"
    assert await subscribed.due_in() < 60
    await subscribed.move(60)
    assert await subscribed.work_off() == []
    assert len(subscribed.calls("subscriptions.update")) == 2


async def test_requests_name_the_account_never_me(subscribed):
    subscribed.sim.delete("requests")
    await subscribed.run()
    asked = subscribed.sim.get("requests", mailbox=subscribed.contract.address, limit=1000)
    assert asked
    assert [each["path"] for each in asked if "me" in each["path"].split("/")] == []


async def test_the_last_renewal_is_stored(subscribed):
    await subscribed.run()
    created = datetime.fromisoformat((await subscribed.live_row())["last_renewed_at"])
    await subscribed.move(6 * DAY + HOUR)
    assert await subscribed.work_off() == []
    renewed = datetime.fromisoformat((await subscribed.live_row())["last_renewed_at"])
    assert renewed - created > timedelta(days=6)


@only_graph
async def test_validation_that_fails_three_times_and_then_passes_leaves_one_subscription_and_no_rests(
    subscribed,
):
    subscribed.receiver.validates = False
    for _ in range(3):
        [error] = await subscribed.run()
        assert isinstance(error, TransientError)
        assert await subscribed.rows() == [], "the provider has created nothing"
        assert (await subscribed.health())[0] == "subscription_expired"
        await subscribed.move(61)
    subscribed.receiver.validates = True
    assert await subscribed.work_off() == []
    await subscribed.assert_one_live()
    assert len(await subscribed.rows()) == 1
    assert await subscribed.events() == ["SUBSCRIPTION_CREATED"]
    assert await subscribed.health() == ("active", None)


@only_graph
async def test_an_equal_subscription_with_an_unknown_secret_is_deleted_and_recreated(subscribed):
    await subscribed.run()
    [stranger] = subscribed.remote_subscriptions()
    await subscribed.owner.execute("DELETE FROM subscriptions")
    await subscribed.run()
    await subscribed.assert_one_live()
    assert subscribed.remote_subscriptions()[0]["id"] != stranger["id"]


@only_graph
async def test_a_shared_subscription_is_handed_over_when_its_maker_leaves(subscribed, make_organization):
    await subscribed.run()
    other = await make_organization()
    second = await insert_mailbox(subscribed.owner, other, "outlook", subscribed.grant.account)
    subscribed.tokens[second] = subscribed.tokens[subscribed.mailbox]
    await subscribed.wake(second, other)
    assert await subscribed.work_off() == []
    first, shared_row = await subscribed.live_row(), await subscribed.live_row(second)
    for name in ("provider_subscription_id", "client_state_sha256", "notification_url"):
        assert shared_row[name] == first[name]
    assert "SUBSCRIPTION_ADOPTED" in await subscribed.events()
    await subscribed.owner.execute("DELETE FROM mailboxes WHERE id = %s", [subscribed.mailbox])
    async with subscribed.database.transaction(other) as connection:
        await subscriptions.request_reauthorization(connection, second)
    await subscribed.wake(second, other)
    assert await subscribed.work_off() == []
    assert (await subscribed.live_row(second))["id"] == shared_row["id"]
    [kept] = subscribed.remote_subscriptions()
    assert kept["id"] == first["provider_subscription_id"]
    assert len(subscribed.calls("subscriptions.create")) == 2, "the second was refused as equal"
    assert subscribed.calls("subscriptions.delete") == []
    assert len(subscribed.calls("subscriptions.update")) == 2, "adopted, then authorized with its own token"
    assert await subscribed.health(second) == ("active", None)


async def made_by_others(subscribed) -> dict[str, str]:
    """An orphan of ours, and a subscription of another system."""
    token = await subscribed.tokens[subscribed.mailbox].get_token()
    user = subscribed.grant.account.provider_user_id
    made = {}
    for folder, url in (
        ("inbox", f"{subscribed.base}/webhooks/outlook/{uuid4()}"),
        ("archive", f"{subscribed.base}/another/system"),
    ):
        answer = await asyncio.to_thread(
            httpx2.post,
            f"{subscribed.sim.http}/v1.0/subscriptions",
            headers={"authorization": f"Bearer {token.reveal()}"},
            json={
                "changeType": "created",
                "notificationUrl": url,
                "resource": f"users/{user}/mailFolders('{folder}')/messages",
                "expirationDateTime": (
                    datetime.fromisoformat(subscribed.sim.get("clock")["now"]) + timedelta(days=2)
                ).isoformat(),
                "clientState": "unknown",
            },
            trust_env=False,
        )
        made[folder] = answer.json()["id"]
    return made


@only_graph
async def test_a_mailbox_that_is_new_here_leaves_no_orphan_of_a_former_database(subscribed):
    made = await made_by_others(subscribed)
    await subscribed.run()
    row = await subscribed.live_row()
    assert {each["id"] for each in subscribed.remote_subscriptions()} == {
        row["provider_subscription_id"],
        made["archive"],
    }


@only_graph
async def test_orphans_of_ours_are_removed_and_subscriptions_of_others_are_left_alone(subscribed):
    await subscribed.run()
    await subscribed.move(HOUR)
    made = await made_by_others(subscribed)
    subscribed.sim.post(
        f"mailboxes/{subscribed.contract.address}/lifecycle",
        event="subscriptionRemoved",
        subscription=(await subscribed.live_row())["provider_subscription_id"],
    )
    await subscribed.run()
    row = await subscribed.live_row()
    assert {each["id"] for each in subscribed.remote_subscriptions()} == {
        row["provider_subscription_id"],
        made["archive"],
    }


async def test_a_new_public_address_moves_the_subscription(subscribed):
    await subscribed.run()
    async with receiving() as moved:
        base = moved.url.removesuffix("/push")
        assert await subscribed.run(public_url=base) == []
        row = await subscribed.live_row()
        assert row["notification_url"].startswith(base)
        assert len(subscribed.remote_subscriptions()) == 1


async def test_replaced_rows_are_kept_for_seven_days_and_then_removed(subscribed):
    await subscribed.run()
    await subscribed.owner.execute(
        "UPDATE subscriptions SET replaced_at = postroom_now(), status = 'removed'"
    )
    await subscribed.run()
    assert len(await subscribed.rows()) == 2
    await subscribed.move(6 * DAY)
    await subscribed.run()
    assert len(await subscribed.rows()) == 2
    await subscribed.move(2 * DAY)
    await subscribed.run()
    assert len(await subscribed.rows()) == 1
    await subscribed.assert_one_live()


async def test_mailboxes_without_scheduled_work_are_found(subscribed):
    assert await subscribe.schedule_missing(subscribed.database) == 1
    assert await subscribed.work_off() == []
    await subscribed.assert_one_live()
    assert await subscribe.schedule_missing(subscribed.database) == 0
    await subscribed.owner.execute("UPDATE mailboxes SET disconnected_at = postroom_now()")
    await subscribed.owner.execute("DELETE FROM work")
    assert await subscribe.schedule_missing(subscribed.database) == 0


async def test_a_lost_grant_ends_the_work_until_a_reconnect(subscribed):
    class Lost:
        async def get_token(self):
            raise InvalidGrant("The grant is gone. Connect the mailbox again.")

    subscribed.tokens[subscribed.mailbox] = Lost()
    assert await subscribed.run() == []
    assert (await subscribed.health())[0] == "token_refresh_failed"
    cursor = await subscribed.owner.execute("SELECT event_type FROM ledger WHERE entity_type = 'mailbox'")
    assert await cursor.fetchall() == [("TOKEN_REFRESH_FAILED",)]
    assert await subscribed.due_in() is None
    await subscribed.run()
    assert subscribed.calls("*watch*") + subscribed.calls("subscriptions.*") == []


async def test_a_grant_found_lost_after_a_reconnect_is_the_former_one(subscribed):
    """The reconnect commits while the former token is being refused: the mailbox is well."""
    good = subscribed.tokens[subscribed.mailbox]

    class Former:
        async def get_token(self):
            await subscribed.owner.execute("UPDATE mailboxes SET connected_at = postroom_now()")
            await subscribed.wake()
            subscribed.tokens[subscribed.mailbox] = good
            raise InvalidGrant("The former grant is gone.")

    subscribed.tokens[subscribed.mailbox] = Former()
    assert await subscribed.run() == []
    assert await subscribed.health() == ("active", None)
    assert await subscribed.work_off() == []
    await subscribed.assert_one_live()


@only_graph
async def test_a_provider_that_refuses_is_said_in_words_and_asked_again_later(subscribed):
    subscribed.sim.fault(
        "error", status=403, mailbox=subscribed.contract.address, endpoint="subscriptions.create"
    )
    assert await subscribed.run() == []
    health, words = await subscribed.health()
    assert health == "provider_error"
    assert "denies access" in words
    assert 5 * HOUR < await subscribed.due_in() < 7 * HOUR
    subscribed.sim.delete("faults")
    await subscribed.move(7 * HOUR)
    assert await subscribed.work_off() == []
    await subscribed.assert_one_live()
    assert await subscribed.health() == ("active", None)


@only_graph
async def test_a_mailbox_or_folder_that_is_not_there_is_said_so(subscribed):
    subscribed.sim.fault(
        "error", status=404, mailbox=subscribed.contract.address, endpoint="subscriptions.create"
    )
    assert await subscribed.run() == []
    assert await subscribed.health() == (
        "provider_error",
        (
            "The provider cannot find this mailbox or its folder."
            " Check that both exist, then reconnect the mailbox."
        ),
    )


async def test_without_a_public_address_no_subscription_is_created(subscribed):
    assert await subscribed.run(public_url=None) == []
    assert (await subscribed.rows(), subscribed.remote_subscriptions()) == ([], [])
    assert await subscribed.due_in() is None


async def test_without_a_configured_provider_the_work_waits_for_the_operator(subscribed):
    unconfigured = AccessTokens(subscribed.database, {}, vault=None, sealer=None)
    [error] = await subscribed.run(remote=unconfigured.open_mailbox)
    assert isinstance(error, OperatorError)


async def test_the_history_id_of_a_watch_is_never_taken_for_a_cursor(subscribed):
    await subscribed.run()
    await subscribed.move(DAY)
    await subscribed.work_off()
    cursor = await subscribed.owner.execute("SELECT count(*) FROM cursors")
    assert await cursor.fetchone() == (0,)


def test_a_subscription_shows_no_secret():
    assert "client_state_sha256" not in Subscription.__slots__
