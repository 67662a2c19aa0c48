"""Subscriptions: handshakes, limits, duplicates, client state, renewal, ownership."""

import datetime as dt
from urllib.parse import parse_qsl, urlsplit

import jwt
import pytest

from simulator.graph_push_receiver import receive_pushes
from simulator.subscription_requests import later, now, subscribe, subscription_error


@pytest.fixture
def receiver():
    with receive_pushes() as running:
        yield running


@pytest.fixture
def user(sim, microsoft, address):
    sim.create("outlook", address)
    return microsoft.sign_in(sim, address, seconds=86400)


def test_creating_a_subscription_returns_its_properties(user, receiver):
    expires = later(user, hours=5)
    made = subscribe(user, receiver, expirationDateTime=expires, lifecycleNotificationUrl=receiver.url)
    assert made["clientState"] == "secret"
    assert made["resource"] == "me/messages"
    assert made["notificationUrl"] == made["lifecycleNotificationUrl"] == receiver.url
    assert dt.datetime.fromisoformat(made["expirationDateTime"][:26] + "Z") == dt.datetime.fromisoformat(
        expires
    )
    assert made["latestSupportedTlsVersion"] == "v1_2"
    assert made["includeResourceData"] is None
    me = jwt.decode(user.tokens["access_token"], options={"verify_signature": False})
    assert (made["creatorId"], made["applicationId"]) == (me["oid"], me["appid"])


def test_each_url_gets_a_handshake_with_an_encoded_token(user, receiver):
    subscribe(
        user,
        receiver,
        notificationUrl=receiver.url + "?keep=1",
        lifecycleNotificationUrl=receiver.url + "?keep=1",
    )
    assert len(receiver.handshakes) == 2
    tokens = [dict(parse_qsl(urlsplit(path).query)) for path in receiver.handshakes]
    assert all(token["keep"] == "1" for token in tokens)
    for token in tokens:
        assert token["validationToken"].startswith("Validation: Testing client application reachability")
        assert "+" in token["validationToken"]
    raw = [path.partition("validationToken=")[2] for path in receiver.handshakes]
    assert ["%20" in text for text in raw].count(True) == 1


@pytest.mark.parametrize(
    "answer, encoded, words",
    [
        ((202, "text/plain"), False, "HTTP status code is 'Accepted'"),
        ((403, "text/plain"), False, "HTTP status code is 'Forbidden'"),
        ((200, "text/html"), False, "text/plain"),
        ((200, "text/plain"), True, "validation token"),
    ],
)
def test_a_failed_handshake_creates_no_subscription(user, receiver, answer, encoded, words):
    receiver.handshake, receiver.encoded = answer, encoded
    error = subscription_error(user, receiver)
    assert error["code"] == "ValidationError"
    assert words in error["message"]
    assert user.get("/subscriptions")["value"] == []


def test_a_handshake_times_out(sim, user, receiver):
    sim.control.patch("microsoft/options", json={"validation_timeout": 0.2})
    receiver.seconds = 1.0
    assert subscription_error(user, receiver)["message"] == "Subscription validation request timed out."
    sim.control.patch("microsoft/options", json={"validation_timeout": 10.0})
    assert (
        subscription_error(user, receiver, notificationUrl="http://127.0.0.1:9/none")["code"]
        == "ValidationError"
    )


def test_a_short_lifetime_becomes_45_minutes_and_a_long_one_is_refused(user, receiver):
    made = subscribe(user, receiver, expirationDateTime=later(user, minutes=5))
    assert made["expirationDateTime"].startswith(
        (now(user) + dt.timedelta(minutes=45)).strftime("%Y-%m-%dT%H:%M")
    )
    assert subscribe(user, receiver, changeType="created", expirationDateTime=later(user, minutes=10_080))
    message = subscription_error(
        user, receiver, changeType="updated", expirationDateTime=later(user, minutes=10_090)
    )["message"]
    assert "10080 minutes" in message
    slightly = later(user, minutes=10_080, seconds=2)
    assert (
        "10080 minutes"
        in subscription_error(user, receiver, changeType="updated", expirationDateTime=slightly)["message"]
    )
    subscription_error(user, receiver, changeType="updated", expirationDateTime=later(user, minutes=-5))


@pytest.mark.parametrize(
    "change",
    [
        {"changeType": None}, {"changeType": "created,moved"}, {"changeType": 5}, {"notificationUrl": None},
        {"notificationUrl": "http://receivers.example.com/x"}, {"notificationUrl": "ftp://127.0.0.1/x"},
        {"notificationUrl": "https://"}, {"notificationUrl": "http://127.0.0.1:99999/"}, {"resource": None},
        {"resource": "me/calendar"}, {"resource": "users"}, {"resource": "me/messages?$top=5"},
        {"resource": "me/messages?$filter=nothing eq 1"}, {"resource": "me/mailFolders('nonsense')/messages"},
        {"expirationDateTime": None}, {"expirationDateTime": "tomorrow"},
        {"expirationDateTime": "2026-03-03T00:00:00"},
        {"clientState": "x" * 129}, {"clientState": 7}, {"latestSupportedTlsVersion": "v9"}, {"unknown": 1},
        {"includeResourceData": True}, {"lifecycleNotificationUrl": "http://receivers.example.com/x"},
    ],
)  # fmt: skip
def test_an_invalid_request_is_refused(user, receiver, change):
    subscription_error(user, receiver, **change)
    assert receiver.handshakes == []


def test_a_duplicate_subscription_is_a_conflict_that_names_the_first(user, receiver):
    made = subscribe(user, receiver)
    error = subscription_error(user, receiver, 409, changeType="deleted,created,updated", clientState="other")
    assert error["message"] == f"Subscription Id {made['id']} already exists for the requested combination"
    assert subscribe(user, receiver, changeType="created")
    assert subscribe(user, receiver, resource="me/mailFolders('inbox')/messages")
    assert subscribe(user, receiver, resource="me/messages?$filter=isRead eq false")


def test_client_state_is_returned_only_on_creation(user, receiver):
    made = subscribe(user, receiver)
    assert user.get(f"/subscriptions/{made['id']}")["clientState"] is None
    (listed,) = user.get("/subscriptions")["value"]
    assert (listed["id"], listed["clientState"]) == (made["id"], None)
    user.expect_error(400, "/subscriptions", params={"$top": 5})


def test_renewing_extends_a_subscription_until_it_expires(sim, user, receiver):
    made = subscribe(user, receiver, expirationDateTime=later(user, hours=2))
    path = f"/subscriptions/{made['id']}"
    sim.move_clock(3600)
    expires = later(user, hours=2)
    renewed = user.request("PATCH", path, json={"expirationDateTime": expires}).json()
    assert renewed["expirationDateTime"][:19] == expires[:19]
    sim.move_clock(7201)
    for method, more in (
        ("GET", {}),
        ("PATCH", {"json": {"expirationDateTime": later(user, hours=1)}}),
        ("DELETE", {}),
    ):
        assert user.expect_error(404, path, method, **more)["code"] == "ResourceNotFound"
    assert user.get("/subscriptions")["value"] == []


def test_only_a_few_properties_can_be_patched(user, receiver):
    path = f"/subscriptions/{subscribe(user, receiver)['id']}"
    expires = {"expirationDateTime": later(user, hours=1)}
    for body in (
        {}, {"changeType": "created"}, {"clientState": "x", **expires}, {"encryptionCertificateId": "x"},
        {"lifecycleNotificationUrl": receiver.url, **expires}, {"expirationDateTime": "never"},
    ):  # fmt: skip
        user.expect_error(400, path, "PATCH", json=body)
    assert (
        user.request("PATCH", path, json={"notificationUrl": receiver.url + "/new"})
        .json()["notificationUrl"]
        .endswith("new")
    )
    assert len(receiver.handshakes) == 2
    assert user.request("PATCH", path, json={"expirationDateTime": later(user, hours=3)}).status_code == 200
    assert len(receiver.handshakes) == 2


def test_renewing_validates_the_url_again_when_switched_on(sim, user, receiver):
    path = f"/subscriptions/{subscribe(user, receiver)['id']}"
    sim.control.patch("microsoft/options", json={"revalidate": True})
    user.request("PATCH", path, json={"expirationDateTime": later(user, hours=3)})
    sim.control.patch("microsoft/options", json={"revalidate": False})
    assert len(receiver.handshakes) == 2


def test_reauthorizing_does_not_extend(user, receiver):
    made = subscribe(user, receiver)
    assert user.request("POST", f"/subscriptions/{made['id']}/reauthorize").status_code == 204
    assert user.get(f"/subscriptions/{made['id']}")["expirationDateTime"] == made["expirationDateTime"]


def test_a_deleted_subscription_is_not_found(user, receiver):
    made = subscribe(user, receiver)
    assert user.request("DELETE", f"/subscriptions/{made['id']}").status_code == 204
    user.expect_error(404, f"/subscriptions/{made['id']}")
    user.simulation.deliver(user.address, kind="plain")
    user.simulation.post("settle")
    assert receiver.waiting() == []


def test_a_user_subscribes_only_to_the_own_mailbox_and_sees_only_own_subscriptions(
    sim, microsoft, user, receiver
):
    other = microsoft.connect(sim, f"other-{user.address}")
    error = subscription_error(user, receiver, 403, resource=f"users/{other.address}/messages")
    assert error["code"] == "ExtensionError"
    made = subscribe(user, receiver)
    assert other.get("/subscriptions")["value"] == []
    other.expect_error(404, f"/subscriptions/{made['id']}")


def test_an_application_subscribes_to_any_mailbox_it_may_read(sim, microsoft, user, receiver):
    app = microsoft.sign_in(sim, user.address, roles=["Mail.ReadBasic.All"])
    made = subscribe(app, receiver, resource=f"/users/{user.address}/mailFolders('Inbox')/messages")
    assert [one["id"] for one in app.get("/subscriptions")["value"]] == [made["id"]]
    assert user.get("/subscriptions")["value"] == []
    powerless = microsoft.sign_in(sim, user.address, roles=["User.Read.All"])
    assert (
        subscription_error(powerless, receiver, 403, resource=f"users/{user.address}/messages")["code"]
        == "ExtensionError"
    )


def test_the_control_api_lists_subscriptions(sim, user, receiver):
    made = subscribe(user, receiver)
    (shown,) = sim.get(f"mailboxes/{user.address}")["subscriptions"]
    assert (shown["id"], shown["url"]) == (made["id"], receiver.url)


def test_a_mailbox_has_a_limit_of_subscriptions_over_all_applications(sim, user, receiver):
    sim.control.patch("microsoft/options", json={"subscriptions_per_mailbox": 3})
    for number in range(3):
        subscribe(user, receiver, resource=f"me/messages?$filter=subject eq '{number}'")
    error = subscription_error(user, receiver, 403)
    assert "limit of 3" in error["message"]
    sim.control.patch("microsoft/options", json={"subscriptions_per_mailbox": 1000})
