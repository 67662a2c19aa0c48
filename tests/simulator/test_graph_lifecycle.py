"""Lifecycle events: on request, when due by the clock, and pauses without authorization."""

import pytest

from simulator.graph_push_receiver import receive_pushes
from simulator.microsoft_user import IMMUTABLE
from simulator.subscription_requests import later, subscription_request


@pytest.fixture
def receiver():
    with receive_pushes() as running:
        yield running


@pytest.fixture
def user(sim, microsoft, address):
    sim.create("outlook", address)
    return microsoft.sign_in(sim, address, seconds=3600)


@pytest.fixture
def watched(user, receiver):
    wanted = subscription_request(
        user,
        receiver,
        lifecycleNotificationUrl=receiver.url + "/life",
        expirationDateTime=later(user, days=2),
    )
    return user.post("/subscriptions", wanted, headers=IMMUTABLE)


def events(sim, receiver):
    sim.post("settle")
    items = receiver.items()
    return [item["lifecycleEvent"] for item in items if "lifecycleEvent" in item]


@pytest.mark.parametrize("event", ["missed", "reauthorizationRequired", "subscriptionRemoved"])
def test_a_requested_event_is_sent_to_the_lifecycle_url_in_both_shapes(sim, user, receiver, watched, event):
    path = f"mailboxes/{user.address}/lifecycle"
    assert sim.post(path, event=event, shape="tenant")["count"] == 1
    delivery = receiver.next()
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
        assert user.expect_error(404, f"/subscriptions/{watched['id']}")
        assert sim.post(path, event="missed")["count"] == 0
        return
    sim.post(path, event=event, shape="organization")
    (other,) = receiver.next().value
    assert other["organizationId"] == item["tenantId"]
    assert "tenantId" not in other
    assert (other["resource"], other["sequence"], other["encryptedContent"]) == ("", None, None)


def test_the_control_api_refuses_an_unknown_event(sim, user, watched):
    answer = sim.control.post(f"mailboxes/{user.address}/lifecycle", json={"event": "party"})
    assert answer.status_code == 400


def test_a_subscription_without_lifecycle_url_gets_no_events(sim, user, receiver):
    user.post("/subscriptions", subscription_request(user, receiver))
    assert sim.post(f"mailboxes/{user.address}/lifecycle", event="missed")["count"] == 0
    assert events(sim, receiver) == []


def test_reminders_are_sent_before_the_token_expires_and_every_15_minutes(sim, user, receiver, watched):
    sim.move_clock(29 * 60)
    assert events(sim, receiver) == []
    sim.move_clock(60)
    assert events(sim, receiver) == ["reauthorizationRequired"]
    sim.move_clock(46 * 60)
    assert events(sim, receiver) == ["reauthorizationRequired"] * 3


def test_pushes_pause_when_the_token_expires_and_resume_after_reauthorization(
    sim, microsoft, user, receiver, watched
):
    sim.move_clock(3601)
    events(sim, receiver)
    one = sim.deliver(user.address, kind="plain")["id"]
    sim.post("settle")
    assert [item for item in receiver.items() if "changeType" in item] == []
    assert sim.get(f"mailboxes/{user.address}")["subscriptions"][0]["paused"] == 1
    fresh = microsoft.sign_in(sim, user.address)
    assert fresh.request("POST", f"/subscriptions/{watched['id']}/reauthorize").status_code == 204
    sim.post("settle")
    assert [item["resourceData"]["id"] for item in receiver.items()] == [one]
    sim.deliver(user.address, kind="plain")
    assert len(receiver.next().value) == 1


def test_reminders_restart_with_a_fresh_token(sim, microsoft, user, receiver, watched):
    sim.move_clock(8 * 3600)
    events(sim, receiver)
    fresh = microsoft.sign_in(sim, user.address, seconds=3600)
    fresh.request("POST", f"/subscriptions/{watched['id']}/reauthorize")
    sim.move_clock(29 * 60)
    assert events(sim, receiver) == []
    sim.move_clock(60)
    assert events(sim, receiver) == ["reauthorizationRequired"]


def test_reminders_are_sent_before_the_subscription_expires(sim, microsoft, user, receiver):
    lasting = microsoft.sign_in(sim, user.address, seconds=864000)
    wanted = subscription_request(
        user, receiver, lifecycleNotificationUrl=receiver.url, expirationDateTime=later(user, hours=5)
    )
    lasting.post("/subscriptions", wanted)
    sim.move_clock(4 * 3600)
    assert events(sim, receiver) == []
    sim.move_clock(2 * 3600)
    assert events(sim, receiver) == ["reauthorizationRequired"] * 2


def test_notifications_paused_for_over_four_hours_are_missed(sim, microsoft, user, receiver, watched):
    sim.move_clock(3601)
    sim.deliver(user.address, kind="plain")
    sim.move_clock(4 * 3600 + 60)
    events(sim, receiver)
    fresh = microsoft.sign_in(sim, user.address)
    renewed = fresh.request(
        "PATCH", f"/subscriptions/{watched['id']}", json={"expirationDateTime": later(user, days=2)}
    )
    assert renewed.status_code == 200
    sim.post("settle")
    items = receiver.items()
    assert [item for item in items if "changeType" in item] == []
    assert [item["lifecycleEvent"] for item in items] == ["missed"]


def test_pushes_never_pause_when_reauthorization_is_switched_off(sim, user, receiver, watched):
    sim.control.patch("microsoft/options", json={"reauthorization": False})
    sim.move_clock(7200)
    sim.deliver(user.address, kind="plain")
    assert "changeType" in receiver.next().value[0]
    sim.control.patch("microsoft/options", json={"reauthorization": True})


def test_a_revoked_consent_removes_the_subscription(sim, user, receiver, watched):
    sim.post(f"mailboxes/{user.address}/revoke", reason="consent")
    assert events(sim, receiver) == ["subscriptionRemoved"]
    assert sim.get(f"mailboxes/{user.address}")["subscriptions"] == []


def test_lifecycle_events_are_retried_and_lost_like_any_push(sim, user, receiver, watched):
    receiver.answer(500)
    sim.post(f"mailboxes/{user.address}/lifecycle", event="missed")
    sim.move_clock(10)
    assert events(sim, receiver) == ["missed", "missed"]
    sim.fault("push_lost", mailbox=user.address, endpoint="lifecycle", times=1)
    sim.post(f"mailboxes/{user.address}/lifecycle", event="missed")
    assert events(sim, receiver) == []
