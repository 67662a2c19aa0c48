"""Subscriptions: two handshakes, bounds, duplicates, secrets, renewals, identities."""

import datetime as dt
from urllib.parse import parse_qsl, urlsplit

import jwt
import pytest

from simulator.subscribing import later, now, refused, subscribe
from simulator.webhook import webhook


@pytest.fixture
def hook():
    with webhook() as made:
        yield made


@pytest.fixture
def user(sim, microsoft, address):
    sim.create("outlook", address)
    return microsoft.sign_in(sim, address, seconds=86400)


def test_a_subscription_answers_with_everything_it_was_given(user, hook):
    expires = later(user, hours=5)
    made = subscribe(user, hook, expirationDateTime=expires, lifecycleNotificationUrl=hook.url)
    assert made["clientState"] == "secret"
    assert made["resource"] == "me/messages"
    assert made["notificationUrl"] == made["lifecycleNotificationUrl"] == hook.url
    assert dt.datetime.fromisoformat(made["expirationDateTime"][:26] + "Z") == dt.datetime.fromisoformat(
        expires
    )
    assert made["latestSupportedTlsVersion"] == "v1_2"
    assert made["includeResourceData"] is None
    me = jwt.decode(user.tokens["access_token"], options={"verify_signature": False})
    assert (made["creatorId"], made["applicationId"]) == (me["oid"], me["appid"])


def test_two_handshakes_come_even_for_one_url_with_a_token_that_must_be_decoded(user, hook):
    subscribe(user, hook, notificationUrl=hook.url + "?keep=1", lifecycleNotificationUrl=hook.url + "?keep=1")
    assert len(hook.handshakes) == 2
    tokens = [dict(parse_qsl(urlsplit(path).query)) for path in hook.handshakes]
    assert all(token["keep"] == "1" for token in tokens)
    for token in tokens:
        assert token["validationToken"].startswith("Validation: Testing client application reachability")
        assert "+" in token["validationToken"]
    raw = [path.partition("validationToken=")[2] for path in hook.handshakes]
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
def test_a_failed_handshake_leaves_no_subscription(user, hook, answer, encoded, words):
    hook.handshake, hook.encoded = answer, encoded
    error = refused(user, hook)
    assert error["code"] == "ValidationError"
    assert words in error["message"]
    assert user.get("/subscriptions")["value"] == []


def test_a_handshake_has_its_time(sim, user, hook):
    sim.control.patch("microsoft/options", json={"validation_timeout": 0.2})
    hook.seconds = 1.0
    assert refused(user, hook)["message"] == "Subscription validation request timed out."
    sim.control.patch("microsoft/options", json={"validation_timeout": 10.0})
    assert refused(user, hook, notificationUrl="http://127.0.0.1:9/none")["code"] == "ValidationError"


def test_a_short_life_becomes_45_minutes_and_a_long_one_is_refused(user, hook):
    made = subscribe(user, hook, expirationDateTime=later(user, minutes=5))
    assert made["expirationDateTime"].startswith(
        (now(user) + dt.timedelta(minutes=45)).strftime("%Y-%m-%dT%H:%M")
    )
    assert subscribe(user, hook, changeType="created", expirationDateTime=later(user, minutes=10_080))
    message = refused(user, hook, changeType="updated", expirationDateTime=later(user, minutes=10_090))[
        "message"
    ]
    assert "10080 minutes" in message
    slightly = later(user, minutes=10_080, seconds=2)
    assert (
        "10080 minutes" in refused(user, hook, changeType="updated", expirationDateTime=slightly)["message"]
    )
    refused(user, hook, changeType="updated", expirationDateTime=later(user, minutes=-5))


@pytest.mark.parametrize(
    "change",
    [
        {"changeType": None}, {"changeType": "created,moved"}, {"changeType": 5}, {"notificationUrl": None},
        {"notificationUrl": "http://hooks.example.com/x"}, {"notificationUrl": "ftp://127.0.0.1/x"},
        {"notificationUrl": "https://"}, {"notificationUrl": "http://127.0.0.1:99999/"}, {"resource": None},
        {"resource": "me/calendar"}, {"resource": "users"}, {"resource": "me/messages?$top=5"},
        {"resource": "me/messages?$filter=nothing eq 1"}, {"resource": "me/mailFolders('nonsense')/messages"},
        {"expirationDateTime": None}, {"expirationDateTime": "tomorrow"},
        {"expirationDateTime": "2026-03-03T00:00:00"},
        {"clientState": "x" * 129}, {"clientState": 7}, {"latestSupportedTlsVersion": "v9"}, {"unknown": 1},
        {"includeResourceData": True}, {"lifecycleNotificationUrl": "http://hooks.example.com/x"},
    ],
)  # fmt: skip
def test_an_order_that_is_not_right_is_refused(user, hook, change):
    refused(user, hook, **change)
    assert hook.handshakes == []


def test_the_same_order_twice_is_a_conflict_that_names_the_first(user, hook):
    made = subscribe(user, hook)
    error = refused(user, hook, 409, changeType="deleted,created,updated", clientState="other")
    assert error["message"] == f"Subscription Id {made['id']} already exists for the requested combination"
    assert subscribe(user, hook, changeType="created")
    assert subscribe(user, hook, resource="me/mailFolders('inbox')/messages")
    assert subscribe(user, hook, resource="me/messages?$filter=isRead eq false")


def test_client_state_is_shown_once(user, hook):
    made = subscribe(user, hook)
    assert user.get(f"/subscriptions/{made['id']}")["clientState"] is None
    (listed,) = user.get("/subscriptions")["value"]
    assert (listed["id"], listed["clientState"]) == (made["id"], None)
    user.refused(400, "/subscriptions", params={"$top": 5})


def test_renewing_moves_the_end_and_after_the_end_there_is_nothing(sim, user, hook):
    made = subscribe(user, hook, expirationDateTime=later(user, hours=2))
    path = f"/subscriptions/{made['id']}"
    sim.move_clock(3600)
    expires = later(user, hours=2)
    renewed = user.ask("PATCH", path, json={"expirationDateTime": expires}).json()
    assert renewed["expirationDateTime"][:19] == expires[:19]
    sim.move_clock(7201)
    for method, more in (
        ("GET", {}),
        ("PATCH", {"json": {"expirationDateTime": later(user, hours=1)}}),
        ("DELETE", {}),
    ):
        assert user.refused(404, path, method, **more)["code"] == "ResourceNotFound"
    assert user.get("/subscriptions")["value"] == []


def test_only_a_few_properties_can_be_patched(user, hook):
    path = f"/subscriptions/{subscribe(user, hook)['id']}"
    expires = {"expirationDateTime": later(user, hours=1)}
    for body in (
        {}, {"changeType": "created"}, {"clientState": "x", **expires}, {"encryptionCertificateId": "x"},
        {"lifecycleNotificationUrl": hook.url, **expires}, {"expirationDateTime": "never"},
    ):  # fmt: skip
        user.refused(400, path, "PATCH", json=body)
    assert (
        user.ask("PATCH", path, json={"notificationUrl": hook.url + "/new"})
        .json()["notificationUrl"]
        .endswith("new")
    )
    assert len(hook.handshakes) == 2
    assert user.ask("PATCH", path, json={"expirationDateTime": later(user, hours=3)}).status_code == 200
    assert len(hook.handshakes) == 2


def test_renewing_checks_the_url_again_when_switched_on(sim, user, hook):
    path = f"/subscriptions/{subscribe(user, hook)['id']}"
    sim.control.patch("microsoft/options", json={"revalidate": True})
    user.ask("PATCH", path, json={"expirationDateTime": later(user, hours=3)})
    sim.control.patch("microsoft/options", json={"revalidate": False})
    assert len(hook.handshakes) == 2


def test_reauthorizing_does_not_extend(user, hook):
    made = subscribe(user, hook)
    assert user.ask("POST", f"/subscriptions/{made['id']}/reauthorize").status_code == 204
    assert user.get(f"/subscriptions/{made['id']}")["expirationDateTime"] == made["expirationDateTime"]


def test_deleting_ends_it(user, hook):
    made = subscribe(user, hook)
    assert user.ask("DELETE", f"/subscriptions/{made['id']}").status_code == 204
    user.refused(404, f"/subscriptions/{made['id']}")
    user.simulation.deliver(user.address, kind="plain")
    user.simulation.post("settle")
    assert hook.waiting() == []


def test_a_user_subscribes_to_no_other_mailbox_and_sees_no_others(sim, microsoft, user, hook):
    other = microsoft.connect(sim, f"other-{user.address}")
    error = refused(user, hook, 403, resource=f"users/{other.address}/messages")
    assert error["code"] == "ExtensionError"
    made = subscribe(user, hook)
    assert other.get("/subscriptions")["value"] == []
    other.refused(404, f"/subscriptions/{made['id']}")


def test_an_application_subscribes_to_any_mailbox_it_may_read(sim, microsoft, user, hook):
    app = microsoft.sign_in(sim, user.address, roles=["Mail.ReadBasic.All"])
    made = subscribe(app, hook, resource=f"/users/{user.address}/mailFolders('Inbox')/messages")
    assert [one["id"] for one in app.get("/subscriptions")["value"]] == [made["id"]]
    assert user.get("/subscriptions")["value"] == []
    powerless = microsoft.sign_in(sim, user.address, roles=["User.Read.All"])
    assert (
        refused(powerless, hook, 403, resource=f"users/{user.address}/messages")["code"] == "ExtensionError"
    )


def test_the_control_shows_who_watches(sim, user, hook):
    made = subscribe(user, hook)
    (shown,) = sim.get(f"mailboxes/{user.address}")["subscriptions"]
    assert (shown["id"], shown["url"]) == (made["id"], hook.url)


def test_a_mailbox_has_a_limit_of_subscriptions_over_all_applications(sim, user, hook):
    sim.control.patch("microsoft/options", json={"subscriptions_per_mailbox": 3})
    for number in range(3):
        subscribe(user, hook, resource=f"me/messages?$filter=subject eq '{number}'")
    error = refused(user, hook, 403)
    assert "limit of 3" in error["message"]
    sim.control.patch("microsoft/options", json={"subscriptions_per_mailbox": 1000})
