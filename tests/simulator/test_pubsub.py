"""Watches and Pub/Sub pushes: which changes, when, how often, and with which token."""

import base64
import json
from itertools import count

import httpx2
import jwt
import pytest

from simulator.google_user import make_message
from simulator.push_receiver import receiving

DAY = 86_400
ACCOUNT = "pusher@mailsim.iam.gserviceaccount.com"
_numbers = count(1)


@pytest.fixture
def receiver():
    with receiving() as endpoint:
        yield endpoint


@pytest.fixture
def topic(sim):
    return sim.post("google/topics", name=f"projects/mailsim/topics/t{next(_numbers)}0")["name"]


@pytest.fixture
def subscribe(sim, topic, receiver):
    made = []

    def make(**more):
        name = f"projects/mailsim/subscriptions/s{next(_numbers)}0"
        order = {"name": name, "topic": topic, "push_endpoint": receiver.url + "/push?token=secret"} | more
        made.append(sim.post("google/subscriptions", **order))
        return made[-1]

    yield make
    for subscription in made:
        sim.control.delete("google/subscriptions", params={"name": subscription["name"]})


@pytest.fixture
def user(sim, google, address):
    return google.connect(sim, address, messages=5)


def notification_of(delivery):
    return json.loads(base64.b64decode(delivery.json["message"]["data"]))


def settle(sim):
    sim.post("settle")


def test_a_watch_returns_the_history_id_and_publishes_at_once(sim, user, topic, subscribe, receiver):
    subscription = subscribe()
    answer = user.post("watch", {"topicName": topic, "labelIds": ["INBOX"], "labelFilterBehavior": "INCLUDE"})
    assert answer["historyId"] == user.history_id()
    assert int(answer["expiration"]) == sim.get("clock")["milliseconds"] + 7 * DAY * 1000
    delivery = receiver.next()
    assert delivery.path == "/push?token=secret"
    body = delivery.json
    assert set(body) == {"message", "subscription"}
    assert set(body["message"]) == {"data", "messageId", "message_id", "publishTime", "publish_time"}
    assert body["subscription"] == subscription["name"]
    assert notification_of(delivery) == {"emailAddress": user.address, "historyId": int(answer["historyId"])}
    assert "authorization" not in delivery.headers


def test_new_mail_is_published_with_the_newest_history_id(sim, user, topic, subscribe, receiver):
    subscribe()
    user.post("watch", {"topicName": topic})
    receiver.next()
    for form, kind in (("text", str), ("number", int)):
        sim.control.patch("google/options", json={"push_history_id": form})
        sim.move_clock(2)
        sim.deliver(user.address, make_message())
        note = notification_of(receiver.next())
        assert isinstance(note["historyId"], kind)
        assert str(note["historyId"]) == user.history_id()


def test_more_than_one_notification_per_second_is_dropped(sim, user, topic, subscribe, receiver):
    subscribe()
    user.post("watch", {"topicName": topic})
    receiver.next()
    sim.move_clock(2)
    for _ in range(5):
        sim.deliver(user.address, make_message())
    receiver.next()
    sim.move_clock(60)
    assert receiver.nothing_came()
    assert sim.meter(user.address)["pushes_dropped"] == 4
    sim.control.patch("google/options", json={"push_per_second": 0})
    for _ in range(5):
        sim.deliver(user.address, make_message())
    assert len({receiver.next().json["message"]["messageId"] for _ in range(5)}) == 5
    sim.control.patch("google/options", json={"push_per_second": 1})


def test_a_watch_expires_after_seven_days_unless_renewed(sim, google, user, topic, subscribe, receiver):
    subscribe()
    first = user.post("watch", {"topicName": topic})
    receiver.next()
    sim.move_clock(3 * DAY)
    user = google.sign_in(sim, user.address)
    second = user.post("watch", {"topicName": topic})
    receiver.next()
    assert int(second["expiration"]) - int(first["expiration"]) == 3 * DAY * 1000
    sim.move_clock(7 * DAY - 5)
    sim.deliver(user.address, make_message())
    receiver.next()
    sim.move_clock(6)
    sim.deliver(user.address, make_message())
    settle(sim)
    assert receiver.nothing_came()


def test_stop_ends_the_notifications(sim, user, topic, subscribe, receiver):
    subscribe()
    user.post("watch", {"topicName": topic})
    receiver.next()
    assert user.request("POST", "stop").status_code == 204
    assert user.request("POST", "stop").status_code == 204
    sim.move_clock(2)
    sim.deliver(user.address, make_message())
    settle(sim)
    assert receiver.nothing_came()


@pytest.mark.parametrize("behavior, announced", [("include", ["SPAM"]), ("exclude", ["INBOX"])])
def test_the_label_filter_includes_or_excludes(sim, user, topic, subscribe, receiver, behavior, announced):
    subscribe()
    user.post("watch", {"topicName": topic, "labelIds": ["SPAM"], "labelFilterBehavior": behavior})
    receiver.next()
    for folder in ("INBOX", "SPAM"):
        sim.move_clock(2)
        sim.deliver(user.address, make_message(), folder=folder)
        settle(sim)
        if folder in announced:
            assert notification_of(receiver.next())["historyId"] == int(user.history_id())
        assert receiver.nothing_came()


def test_every_configuration_mistake_has_its_own_error(sim, user, topic):
    def refused(status, **wish):
        return user.expect_error(status, "watch", "POST", json=wish)["message"]

    pattern = "Invalid topicName does not match projects/mailsim/topics/*"
    assert refused(400) == refused(400, topicName="nonsense") == pattern
    assert refused(400, topicName="projects/other/topics/mail") == pattern
    none = "projects/mailsim/topics/none"
    assert refused(404, topicName=none) == (
        f"Error sending test message to Cloud PubSub {none} : Resource not found (resource=none)."
    )
    closed = sim.post("google/topics", name="projects/mailsim/topics/closed", publisher=False)["name"]
    assert refused(403, topicName=closed) == (
        f"Error sending test message to Cloud PubSub {closed} : User not authorized to perform this action."
    )
    user.post("watch", {"topicName": topic})
    other = sim.post("google/topics", name="projects/mailsim/topics/second")["name"]
    assert refused(400, topicName=other) == (
        "Only one user push notification client allowed per developer (call /stop then try again)"
    )
    user.post("stop", status=204)
    user.post("watch", {"topicName": other})
    assert refused(400, topicName=other, labelIds=["NOPE"]) == "Invalid label: NOPE"
    assert refused(400, topicName=other, labelFilterBehavior="maybe")


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_success_statuses_acknowledge_a_push(sim, user, topic, subscribe, receiver, status):
    subscribe()
    receiver.answer(status)
    user.post("watch", {"topicName": topic})
    receiver.next()
    sim.move_clock(700)
    assert receiver.nothing_came()
    assert sim.meter(user.address)["pushes_acknowledged"] == 1


@pytest.mark.parametrize("status", [203, 302, 400, 403, 500, 503])
def test_other_statuses_are_retried(sim, user, topic, subscribe, receiver, status):
    subscribe(retry_min_seconds=10)
    receiver.answer(status, status)
    user.post("watch", {"topicName": topic})
    first = receiver.next()
    settle(sim)
    assert receiver.nothing_came()
    sim.move_clock(10)
    second = receiver.next()
    sim.move_clock(20)
    third = receiver.next()
    assert first.json == second.json == third.json
    sim.move_clock(600)
    assert receiver.nothing_came()
    meter = sim.meter(user.address)
    assert (meter["pushes_sent"], meter["pushes_failed"], meter["pushes_acknowledged"]) == (3, 2, 1)


def test_an_unreachable_endpoint_is_retried_until_the_message_expires(sim, user, topic, subscribe):
    subscribe(push_endpoint="http://127.0.0.1:9/push", retry_min_seconds=600, retention_seconds=3600)
    user.post("watch", {"topicName": topic})
    sim.move_clock(2 * 3600)
    meter = sim.meter(user.address)
    assert (meter["pushes_sent"], meter["pushes_dropped"], meter["pushes_acknowledged"]) == (6, 1, 0)


def test_a_dead_letter_topic_receives_messages_after_max_attempts(sim, user, topic, subscribe, receiver):
    dead = sim.post("google/topics", name=f"{topic}-dead")["name"]
    with receiving() as dead_letters:
        subscribe(topic=dead, push_endpoint=dead_letters.url)
        subscribe(dead_letter_topic=dead, max_attempts=5, retry_min_seconds=1)
        receiver.answer(*[500] * 5)
        user.post("watch", {"topicName": topic})
        sim.move_clock(120)
        attempts = [receiver.next().json["deliveryAttempt"] for _ in range(5)]
        assert attempts == [1, 2, 3, 4, 5]
        forwarded = dead_letters.next()
        assert notification_of(forwarded)["emailAddress"] == user.address
        source = forwarded.json["message"]["attributes"]
        assert source["CloudPubSubDeadLetterSourceDeliveryCount"] == "5"
        assert source["CloudPubSubDeadLetterSourceSubscription"]
        assert source["CloudPubSubDeadLetterSourceSubscriptionProject"] == topic.split("/")[1]
        assert receiver.nothing_came()


def test_a_message_does_not_return_to_a_topic_that_it_came_through(sim, user, topic, subscribe):
    """Two subscriptions that dead-letter to their own topic would multiply every message without end."""
    other = sim.post("google/topics", name=f"{topic}-other")["name"]
    for source, dead in ((topic, topic), (topic, other), (other, topic)):
        subscribe(
            topic=source, push_endpoint="http://127.0.0.1:9/push", dead_letter_topic=dead, max_attempts=5
        )
    user.post("watch", {"topicName": topic})
    sim.move_clock(3600)
    meter = sim.meter(user.address)
    assert (meter["pushes_sent"], meter["pushes_dropped"]) == (15, 3)


def test_unwrapped_delivery_is_the_data_itself(sim, user, topic, subscribe, receiver):
    subscription = subscribe(no_wrapper=True, write_metadata=True)
    user.post("watch", {"topicName": topic})
    delivery = receiver.next()
    assert delivery.json["emailAddress"] == user.address
    assert delivery.headers["x-goog-pubsub-subscription-name"] == subscription["name"]
    assert delivery.headers["x-goog-pubsub-message-id"].isdigit()
    assert delivery.headers["x-goog-pubsub-publish-time"].endswith("Z")


def claims_of(sim, delivery, **options):
    token = delivery.headers["authorization"].removeprefix("Bearer ")
    keys = jwt.PyJWKSet.from_dict(httpx2.get(f"{sim.http}/oauth2/v3/certs", trust_env=False).json())
    kid = jwt.get_unverified_header(token)["kid"]
    known = {key.key_id: key for key in keys.keys}
    if kid not in known:
        return kid, None
    return kid, jwt.decode(
        token,
        known[kid],
        algorithms=["RS256"],
        options={"verify_aud": False, "verify_exp": False, "verify_iat": False},
    )


def test_the_push_token_has_account_and_audience_and_is_reused(sim, google, user, topic, subscribe, receiver):
    subscribe(service_account=ACCOUNT)
    user.post("watch", {"topicName": topic})
    first = receiver.next()
    _, claims = claims_of(sim, first)
    now = sim.get("clock")["milliseconds"] // 1000
    assert (claims["email"], claims["email_verified"], claims["iss"]) == (
        ACCOUNT,
        True,
        "https://accounts.google.com",
    )
    assert claims["aud"] == receiver.url + "/push?token=secret"  # the default audience holds the secret
    assert (claims["iat"], claims["exp"]) == (now, now + 3600)
    sim.move_clock(1800)
    sim.deliver(user.address, make_message())
    assert receiver.next().headers["authorization"] == first.headers["authorization"]
    sim.move_clock(1800)
    sim.deliver(user.address, make_message())
    assert receiver.next().headers["authorization"] != first.headers["authorization"]


@pytest.mark.parametrize("wrong", ["aud", "email", "expired", "signature", "iss", "unverified"])
def test_the_push_token_can_be_invalid_in_one_way(sim, user, topic, subscribe, receiver, wrong):
    subscribe(service_account=ACCOUNT, audience="https://postroom.example/push")
    sim.fault("push_token", mailbox=user.address, code=wrong, times=1)
    user.post("watch", {"topicName": topic})
    _, claims = claims_of(sim, receiver.next())
    now = sim.get("clock")["milliseconds"] / 1000
    if wrong == "signature":
        assert claims is None
        return
    right = {
        "aud": claims["aud"] == "https://postroom.example/push",
        "email": claims["email"] == ACCOUNT,
        "expired": claims["exp"] > now,
        "iss": claims["iss"] == "https://accounts.google.com",
        "unverified": claims["email_verified"],
    }
    assert [name for name, fine in right.items() if not fine] == [wrong]


def test_faults_lose_duplicate_delay_and_reorder_pushes(sim, user, topic, subscribe, receiver):
    subscribe()
    sim.control.patch("google/options", json={"push_per_second": 0})
    user.post("watch", {"topicName": topic})
    receiver.next()

    def deliver():
        sim.deliver(user.address, make_message())
        return int(user.history_id())

    sim.fault("push_lost", mailbox=user.address, times=1)
    deliver()
    settle(sim)
    assert receiver.nothing_came()
    sim.fault("push_doubled", mailbox=user.address, times=1)
    deliver()
    assert receiver.next().json == receiver.next().json
    sim.fault("push_late", mailbox=user.address, seconds=90, times=1)
    late = deliver()
    settle(sim)
    assert receiver.nothing_came()
    sim.move_clock(91)
    assert notification_of(receiver.next())["historyId"] == late
    sim.fault("push_reordered", mailbox=user.address, times=1)
    first, second = deliver(), deliver()
    assert [notification_of(receiver.next())["historyId"] for _ in range(2)] == [second, first]
    sim.fault("push_reordered", mailbox=user.address, times=1)
    alone = deliver()
    sim.move_clock(6)
    assert notification_of(receiver.next())["historyId"] == alone
    sim.control.patch("google/options", json={"push_per_second": 1})


def test_anything_can_be_published_on_a_topic(sim, topic, subscribe, receiver):
    subscribe()
    sim.post("google/publish", topic=topic, data='{"emailAddress":"nobody@example.com","historyId":"1"}')
    assert notification_of(receiver.next()) == {"emailAddress": "nobody@example.com", "historyId": "1"}


@pytest.mark.parametrize(
    "path, body",
    [
        ("topics", {"name": "topic"}),
        ("subscriptions", {"name": "x", "topic": "y", "push_endpoint": "http://127.0.0.1"}),
        (
            "subscriptions",
            {"name": "projects/mailsim/subscriptions/abc", "topic": "no", "push_endpoint": "http://x"},
        ),
        (
            "subscriptions",
            {"name": "projects/mailsim/subscriptions/abc", "topic": "no", "push_endpoint": "x"},
        ),
        ("publish", {"topic": "none", "data": "x"}),
        ("tokens", {"address": "nobody@example.com"}),
        ("accounts/nobody@example.com", {"trouble": ""}),
        ("clients/nobody", {"trouble": ""}),
    ],
)
def test_invalid_control_requests_are_rejected_with_a_message(sim, path, body):
    answer = sim.control.post(f"google/{path}", json=body)
    assert answer.status_code in {400, 404}
    assert answer.json()["error"]


def test_options_are_validated(sim):
    for wrong in ({"padding": "sometimes"}, {"nothing": 1}, {"history_days": "x"}):
        assert sim.control.patch("google/options", json=wrong).status_code == 400
    assert sim.get("google/options")["padding"] == "always"
