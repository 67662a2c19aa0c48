"""S1, S2, S3, S5: every connected mailbox has one push channel, whatever happens to it."""

import asyncio
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import pairwise
from uuid import uuid4

import httpx2

from flow.subscribe.conftest import only_graph
from flow.subscribe.subscribing import DAY, HOUR, insert_mailbox
from postroom.errors import InvalidGrant, OperatorError, TransientError
from postroom.flow.mailboxes import subscribe
from postroom.model import ProviderName
from postroom.store.subscriptions import Subscription
from providers.receiver import receiving


async def test_a_connected_mailbox_gets_its_channel(kept):
    assert await kept.run() == []
    await kept.check_stands()
    assert await kept.events() == ["SUBSCRIPTION_CREATED"]
    assert await kept.health() == ("active", None)
    row = await kept.is_live()
    assert timedelta(days=6) < datetime.fromisoformat(row["expires_at"]) - datetime.fromisoformat(
        row["confirmed_at"]
    )


@only_graph
async def test_the_row_with_its_secret_is_there_before_the_provider_asks_us_anything(kept):
    """N3: a notification may overtake the provider's answer."""
    seen = []

    async def look(path):
        row = next(row for row in await kept.rows() if path.split("?")[0].endswith(row["id"]))
        seen.append((row["confirmed_at"], len(row["client_state_sha256"])))

    kept.receiver.before_handshake = look
    await kept.run()
    assert seen == [(None, 66)] * 2, "the handshakes of the two addresses"
    kept.sim.deliver(kept.contract.address, kind="plain")
    await asyncio.to_thread(kept.sim.move_clock, 2)
    push = await asyncio.wait_for(kept.receiver.pushes.get(), 30)
    [notice, *_] = kept.contract.provider.push.read(push)
    digest = (await kept.is_live())["client_state_sha256"]
    assert digest == "\\x" + sha256(notice.client_state.reveal().encode()).hexdigest()


async def test_it_is_renewed_because_it_is_due_and_stands_for_weeks(kept):
    await kept.run()
    gmail = kept.contract.provider.name is ProviderName.GMAIL
    for _ in range(21):
        await kept.move(DAY)
        assert await kept.work_off() == []
        await kept.check_stands()
    events = await kept.events()
    assert set(events[1:]) == {"SUBSCRIPTION_RENEWED"}
    assert len(events) - 1 in ({20, 21, 22} if gmail else {3, 4}), "Gmail daily, Graph on its last day"


async def test_a_worker_that_was_down_for_eight_days_makes_it_anew_and_marks_the_old_one(kept):
    await kept.run()
    await kept.move(8 * DAY)
    assert await kept.work_off() == []
    await kept.check_stands()
    if kept.contract.provider.name is ProviderName.OUTLOOK:
        old, _ = await kept.rows()
        assert (old["status"], bool(old["replaced_at"])) == ("expired", True)
        assert (await kept.events())[1:] == ["SUBSCRIPTION_EXPIRED", "SUBSCRIPTION_RECREATED"]
        cursor = await kept.owner.execute("SELECT count(*) FROM work WHERE kind = 'sync'")
        assert await cursor.fetchone() == (1,), "what was missed meanwhile is fetched"
    assert await kept.health() == ("active", None)


@only_graph
async def test_a_removed_one_is_made_anew_at_once_even_just_after_it_was_made(kept):
    await kept.run()
    kept.sim.post(f"mailboxes/{kept.contract.address}/lifecycle", event="subscriptionRemoved")
    assert kept.standing() == []
    await kept.run()
    await kept.check_stands()
    old, _ = await kept.rows()
    assert old["status"] == "removed"
    assert (await kept.events())[1:] == ["SUBSCRIPTION_REMOVED", "SUBSCRIPTION_RECREATED"]


@only_graph
async def test_renewals_keep_ten_minutes_apart_however_often_the_provider_asks(kept):
    await kept.run()
    await kept.move(HOUR)
    for _ in range(4):
        assert await kept.run() == []
        await kept.move(240)
        await kept.work_off()
    renewals = [datetime.fromisoformat(call["time"]) for call in kept.calls("subscriptions.update")]
    assert len(renewals) >= 2
    assert all(b - a >= timedelta(minutes=10) for a, b in pairwise(renewals))
    assert kept.calls("subscriptions.reauthorize") == []
    assert renewals[0] - datetime.fromisoformat(kept.calls("subscriptions.create")[0]["time"]) >= timedelta(
        minutes=10
    )


@only_graph
async def test_a_request_to_reauthorize_renews_at_once(kept):
    await kept.run()
    await kept.move(HOUR)
    before = len(kept.calls("subscriptions.update"))
    await kept.run()
    assert len(kept.calls("subscriptions.update")) == before + 1
    assert await kept.due_in() > 4 * DAY


@only_graph
async def test_validation_that_fails_three_times_and_then_passes_leaves_one_channel_and_no_rests(kept):
    kept.receiver.validates = False
    for _ in range(3):
        [error] = await kept.run()
        assert isinstance(error, TransientError)
        assert (await kept.health())[0] == "subscription_expired"
        await kept.move(61)
    kept.receiver.validates = True
    assert await kept.work_off() == []
    await kept.check_stands()
    assert len(await kept.rows()) == 1
    assert await kept.events() == ["SUBSCRIPTION_CREATED"]
    assert await kept.health() == ("active", None)


@only_graph
async def test_an_equal_channel_whose_secret_nobody_knows_is_deleted_and_made_anew(kept):
    await kept.run()
    [stranger] = kept.standing()
    await kept.owner.execute("DELETE FROM subscriptions")
    await kept.run()
    await kept.check_stands()
    assert kept.standing()[0]["id"] != stranger["id"]


@only_graph
async def test_one_account_in_two_organizations_shares_a_channel_until_its_maker_leaves(
    kept, make_organization
):
    await kept.run()
    other = await make_organization()
    second = await insert_mailbox(kept.owner, other, "outlook", kept.grant.account)
    kept.tokens[second] = kept.tokens[kept.mailbox]
    await kept.wake(second, other)
    assert await kept.work_off() == []
    first, shared_row = await kept.is_live(), await kept.is_live(second)
    for name in ("provider_subscription_id", "client_state_sha256", "notification_url"):
        assert shared_row[name] == first[name]
    assert "SUBSCRIPTION_ADOPTED" in await kept.events()
    await kept.owner.execute("DELETE FROM mailboxes WHERE id = %s", [kept.mailbox])
    await kept.wake(second, other)
    assert await kept.work_off() == []
    row = await kept.is_live(second)
    assert row["notification_url"].endswith(row["id"])
    assert [each["id"] for each in kept.standing()] == [row["provider_subscription_id"]]


async def made_by_others(kept) -> dict[str, str]:
    """An orphan of ours, and a channel of another system."""
    token = await kept.tokens[kept.mailbox].get_token()
    made = {}
    for folder, url in (
        ("inbox", f"{kept.base}/webhooks/outlook/{uuid4()}"),
        ("archive", f"{kept.base}/another/system"),
    ):
        answer = await asyncio.to_thread(
            httpx2.post,
            f"{kept.sim.http}/v1.0/subscriptions",
            headers={"authorization": f"Bearer {token.reveal()}"},
            json={
                "changeType": "created",
                "notificationUrl": url,
                "resource": f"users/{kept.grant.account.provider_user_id}/mailFolders('{folder}')/messages",
                "expirationDateTime": (
                    datetime.fromisoformat(kept.sim.get("clock")["now"]) + timedelta(days=2)
                ).isoformat(),
                "clientState": "unknown",
            },
            trust_env=False,
        )
        made[folder] = answer.json()["id"]
    return made


@only_graph
async def test_a_mailbox_that_is_new_here_leaves_no_orphan_of_a_former_database(kept):
    made = await made_by_others(kept)
    await kept.run()
    row = await kept.is_live()
    assert {each["id"] for each in kept.standing()} == {row["provider_subscription_id"], made["archive"]}


@only_graph
async def test_orphans_of_ours_are_removed_and_channels_of_others_are_left_alone(kept):
    await kept.run()
    await kept.move(HOUR)
    made = await made_by_others(kept)
    kept.sim.post(
        f"mailboxes/{kept.contract.address}/lifecycle",
        event="subscriptionRemoved",
        subscription=(await kept.is_live())["provider_subscription_id"],
    )
    await kept.run()
    row = await kept.is_live()
    assert {each["id"] for each in kept.standing()} == {row["provider_subscription_id"], made["archive"]}


async def test_a_new_public_address_moves_the_channel(kept):
    await kept.run()
    async with receiving() as moved:
        base = moved.url.removesuffix("/push")
        assert await kept.run(public_url=base) == []
        row = await kept.is_live()
        assert row["notification_url"].startswith(base)
        assert len(kept.standing()) == 1


async def test_replaced_rows_are_kept_for_seven_days_and_then_removed(kept):
    await kept.run()
    async with kept.database.transaction(kept.organization) as connection:
        assert not await subscribe.replace_silent_subscription(
            connection, kept.organization, kept.mailbox, changed_at=await now(kept)
        )
    await kept.owner.execute("UPDATE subscriptions SET replaced_at = postroom_now(), status = 'removed'")
    await kept.run()
    assert len(await kept.rows()) == 2
    await kept.move(6 * DAY)
    await kept.run()
    assert len(await kept.rows()) == 2
    await kept.move(2 * DAY)
    await kept.run()
    assert len(await kept.rows()) == 1
    await kept.check_stands()


async def now(kept):
    [row] = await (await kept.owner.execute("SELECT postroom_now()")).fetchall()
    return row[0]


async def silent(kept, changed_at):
    async with kept.database.transaction(kept.organization) as connection:
        return await subscribe.replace_silent_subscription(
            connection, kept.organization, kept.mailbox, changed_at=changed_at
        )


async def test_a_channel_that_stays_silent_is_noticed_and_made_anew(kept):
    before = await now(kept)
    await kept.run()
    old = await kept.is_live()
    await kept.move(HOUR)
    changed_at = await now(kept)
    assert not await silent(kept, before), "the change was there before the channel"
    assert not await silent(kept, changed_at), "the provider may take its time"
    await kept.move(HOUR)
    await kept.owner.execute("UPDATE mailboxes SET last_notified_at = postroom_now()")
    assert not await silent(kept, changed_at), "something was told since"
    await kept.owner.execute("UPDATE mailboxes SET last_notified_at = NULL")
    assert await silent(kept, changed_at)
    assert (await kept.health())[0] == "subscription_expired"
    assert await kept.work_off() == []
    await kept.check_stands()
    assert (await kept.is_live())["id"] != old["id"]
    assert (await kept.events())[-2:] == ["SUBSCRIPTION_EXPIRED", "SUBSCRIPTION_RECREATED"]
    assert await kept.health() == ("active", None)


async def test_mailboxes_that_nobody_looks_after_are_found(kept):
    assert await subscribe.schedule_missing(kept.database) == 1
    assert await kept.work_off() == []
    await kept.check_stands()
    assert await subscribe.schedule_missing(kept.database) == 0
    await kept.owner.execute("UPDATE mailboxes SET disconnected_at = postroom_now()")
    await kept.owner.execute("DELETE FROM work")
    assert await subscribe.schedule_missing(kept.database) == 0


async def test_a_lost_grant_ends_the_work_until_a_reconnect(kept):
    class Lost:
        async def get_token(self):
            raise InvalidGrant("The grant is gone. Connect the mailbox again.")

    kept.tokens[kept.mailbox] = Lost()
    assert await kept.run() == []
    assert (await kept.health())[0] == "token_refresh_failed"
    cursor = await kept.owner.execute("SELECT event_type FROM ledger WHERE entity_type = 'mailbox'")
    assert await cursor.fetchall() == [("TOKEN_REFRESH_FAILED",)]
    assert await kept.due_in() is None
    await kept.run()
    assert kept.calls("*watch*") + kept.calls("subscriptions.*") == []


async def test_a_grant_found_lost_after_a_reconnect_is_the_former_one(kept):
    """The reconnect commits while the former token is being refused: the mailbox is well."""
    good = kept.tokens[kept.mailbox]

    class Former:
        async def get_token(self):
            await kept.owner.execute("UPDATE mailboxes SET connected_at = postroom_now()")
            await kept.wake()
            kept.tokens[kept.mailbox] = good
            raise InvalidGrant("The former grant is gone.")

    kept.tokens[kept.mailbox] = Former()
    assert await kept.run() == []
    assert await kept.health() == ("active", None)
    assert await kept.work_off() == []
    await kept.check_stands()


@only_graph
async def test_a_provider_that_refuses_is_said_in_words_and_asked_again_later(kept):
    kept.sim.fault("error", status=403, mailbox=kept.contract.address, endpoint="subscriptions.create")
    assert await kept.run() == []
    health, words = await kept.health()
    assert health == "provider_error"
    assert "does not allow" in words
    assert 5 * HOUR < await kept.due_in() < 7 * HOUR
    kept.sim.delete("faults")
    await kept.move(7 * HOUR)
    assert await kept.work_off() == []
    await kept.check_stands()
    assert await kept.health() == ("active", None)


@only_graph
async def test_a_mailbox_or_folder_that_is_not_there_is_said_so(kept):
    kept.sim.fault("error", status=404, mailbox=kept.contract.address, endpoint="subscriptions.create")
    assert await kept.run() == []
    assert await kept.health() == (
        "provider_error",
        "The provider does not find this mailbox or its folder.",
    )


async def test_without_a_public_address_or_a_provider_the_operator_is_told_what_to_set(kept):
    [error] = await kept.run(public_url=None)
    assert isinstance(error, OperatorError)
    assert "POSTROOM_PUBLIC_URL" in str(error)
    await kept.move(61)
    [error] = await kept.run(providers={})
    assert isinstance(error, OperatorError)


async def test_the_history_id_of_a_watch_is_never_taken_for_a_cursor(kept):
    await kept.run()
    await kept.move(DAY)
    await kept.work_off()
    cursor = await kept.owner.execute("SELECT count(*) FROM cursors")
    assert await cursor.fetchone() == (0,)


def test_a_subscription_shows_no_secret():
    assert "client_state_sha256" not in Subscription.__slots__
