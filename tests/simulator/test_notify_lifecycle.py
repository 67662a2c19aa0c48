"""Lifecycle events: on order, when due by the clock, and what a stale authorization stops."""

import pytest

from simulator.microsoft_user import IMMUTABLE
from simulator.subscribing import later, order
from simulator.webhook import webhook


@pytest.fixture
def hook():
    with webhook() as made:
        yield made


@pytest.fixture
def user(sim, microsoft, address):
    sim.create("outlook", address)
    return microsoft.sign_in(sim, address, seconds=3600)


@pytest.fixture
def watched(user, hook):
    wanted = order(
        user, hook, lifecycleNotificationUrl=hook.url + "/life", expirationDateTime=later(user, days=2)
    )
    return user.post("/subscriptions", wanted, headers=IMMUTABLE)


def events(sim, hook):
    sim.post("settle")
    items = hook.items()
    return [item["lifecycleEvent"] for item in items if "lifecycleEvent" in item]


@pytest.mark.parametrize("event", ["missed", "reauthorizationRequired", "subscriptionRemoved"])
def test_an_event_comes_on_order_to_its_own_url_in_both_shapes(sim, user, hook, watched, event):
    path = f"mailboxes/{user.address}/lifecycle"
    assert sim.post(path, event=event, shape="tenant")["count"] == 1
    delivery = hook.next()
    assert delivery.path.endswith("/life")
    (item,) = delivery.value
    assert set(item) == {
        "subscriptionId", "subscriptionExpirationDateTime", "clientState", "lifecycleEvent", "tenantId",
    }  # fmt: skip
    assert (item["subscriptionId"], item["clientState"], item["lifecycleEvent"]) == (
        watched["id"],
        "secret",
        event,
    )
    if event == "subscriptionRemoved":
        assert user.refused(404, f"/subscriptions/{watched['id']}")
        assert sim.post(path, event="missed")["count"] == 0
        return
    sim.post(path, event=event, shape="organization")
    (other,) = hook.next().value
    assert other["organizationId"] == item["tenantId"]
    assert "tenantId" not in other
    assert (other["resource"], other["sequence"], other["encryptedContent"]) == ("", None, None)


def test_an_unknown_event_is_refused_by_the_control(sim, user, watched):
    answer = sim.control.post(f"mailboxes/{user.address}/lifecycle", json={"event": "party"})
    assert answer.status_code == 400


def test_a_subscription_without_the_url_hears_nothing(sim, user, hook):
    user.post("/subscriptions", order(user, hook))
    assert sim.post(f"mailboxes/{user.address}/lifecycle", event="missed")["count"] == 0
    assert events(sim, hook) == []


def test_reminders_come_before_the_token_ends_and_every_quarter_of_an_hour(sim, user, hook, watched):
    sim.move_clock(29 * 60)
    assert events(sim, hook) == []
    sim.move_clock(60)
    assert events(sim, hook) == ["reauthorizationRequired"]
    sim.move_clock(46 * 60)
    assert events(sim, hook) == ["reauthorizationRequired"] * 3


def test_pushes_pause_while_the_token_is_stale_and_resume_when_it_is_renewed(
    sim, microsoft, user, hook, watched
):
    sim.move_clock(3601)
    events(sim, hook)
    one = sim.deliver(user.address, kind="plain")["id"]
    sim.post("settle")
    assert [item for item in hook.items() if "changeType" in item] == []
    assert sim.get(f"mailboxes/{user.address}")["subscriptions"][0]["paused"] == 1
    fresh = microsoft.sign_in(sim, user.address)
    assert fresh.ask("POST", f"/subscriptions/{watched['id']}/reauthorize").status_code == 204
    sim.post("settle")
    assert [item["resourceData"]["id"] for item in hook.items()] == [one]
    sim.deliver(user.address, kind="plain")
    assert len(hook.next().value) == 1


def test_reminders_begin_anew_with_a_fresh_token(sim, microsoft, user, hook, watched):
    sim.move_clock(8 * 3600)
    events(sim, hook)
    fresh = microsoft.sign_in(sim, user.address, seconds=3600)
    fresh.ask("POST", f"/subscriptions/{watched['id']}/reauthorize")
    sim.move_clock(29 * 60)
    assert events(sim, hook) == []
    sim.move_clock(60)
    assert events(sim, hook) == ["reauthorizationRequired"]


def test_reminders_come_before_the_subscription_ends_too(sim, microsoft, user, hook):
    lasting = microsoft.sign_in(sim, user.address, seconds=864000)
    wanted = order(user, hook, lifecycleNotificationUrl=hook.url, expirationDateTime=later(user, hours=5))
    lasting.post("/subscriptions", wanted)
    sim.move_clock(4 * 3600)
    assert events(sim, hook) == []
    sim.move_clock(2 * 3600)
    assert events(sim, hook) == ["reauthorizationRequired"] * 2


def test_what_waited_more_than_four_hours_is_missed(sim, microsoft, user, hook, watched):
    sim.move_clock(3601)
    sim.deliver(user.address, kind="plain")
    sim.move_clock(4 * 3600 + 60)
    events(sim, hook)
    fresh = microsoft.sign_in(sim, user.address)
    renewed = fresh.ask(
        "PATCH", f"/subscriptions/{watched['id']}", json={"expirationDateTime": later(user, days=2)}
    )
    assert renewed.status_code == 200
    sim.post("settle")
    items = hook.items()
    assert [item for item in items if "changeType" in item] == []
    assert [item["lifecycleEvent"] for item in items] == ["missed"]


def test_pushes_never_pause_when_reauthorization_is_switched_off(sim, user, hook, watched):
    sim.control.patch("microsoft/options", json={"reauthorization": False})
    sim.move_clock(7200)
    sim.deliver(user.address, kind="plain")
    assert "changeType" in hook.next().value[0]
    sim.control.patch("microsoft/options", json={"reauthorization": True})


def test_a_revoked_consent_removes_the_subscription(sim, user, hook, watched):
    sim.post(f"mailboxes/{user.address}/revoke", reason="consent")
    assert events(sim, hook) == ["subscriptionRemoved"]
    assert sim.get(f"mailboxes/{user.address}")["subscriptions"] == []


def test_lifecycle_events_are_retried_and_lost_like_any_push(sim, user, hook, watched):
    hook.answer(500)
    sim.post(f"mailboxes/{user.address}/lifecycle", event="missed")
    sim.move_clock(10)
    assert events(sim, hook) == ["missed", "missed"]
    sim.fault("push_lost", mailbox=user.address, endpoint="lifecycle", times=1)
    sim.post(f"mailboxes/{user.address}/lifecycle", event="missed")
    assert events(sim, hook) == []
