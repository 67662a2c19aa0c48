"""The REST API of Cloud Pub/Sub, called by Google's client and by plain HTTP.

Follows the discovery document `pubsub:v1` and Gmail's guide "Push notifications", which asks to grant
publishing to gmail-api-push@system.gserviceaccount.com.
"""

import base64
import json

import pytest
from google.oauth2.credentials import Credentials
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

from simulator import conformance_google
from simulator.google_user import READONLY, make_message
from simulator.push_receiver import receiving

SCOPE = "https://www.googleapis.com/auth/pubsub"
PUBLISHER = "serviceAccount:gmail-api-push@system.gserviceaccount.com"
GRANT = {"policy": {"bindings": [{"role": "roles/pubsub.publisher", "members": [PUBLISHER]}]}}


@pytest.fixture
def user(sim, google, address):
    return google.connect(sim, address, READONLY, SCOPE)


@pytest.fixture
def client(sim, user):
    service = build(
        "pubsub",
        "v1",
        credentials=Credentials(user.tokens["access_token"]),
        client_options={"api_endpoint": sim.http},
        static_discovery=True,
    )
    yield service.projects()
    service.close()


@pytest.fixture
def names(address):
    word = address.partition("@")[0]
    return f"projects/mailsim/topics/{word}", f"projects/mailsim/subscriptions/{word}"


def status_of(request):
    with pytest.raises(HttpError) as raised:
        request.execute()
    return raised.value.status_code


def test_a_program_sets_up_a_topic_and_pulls_gmails_notifications(sim, user, client, names):
    topic, subscription = names
    topics, subscriptions = client.topics(), client.subscriptions()
    assert topics.create(name=topic, body={"labels": {"team": "mail"}}).execute()["name"] == topic
    assert user.expect_error(403, "watch", "POST", json={"topicName": topic})["status"] == "PERMISSION_DENIED"
    policy = topics.getIamPolicy(resource=topic).execute()
    body = {"policy": GRANT["policy"] | {"etag": policy["etag"]}}
    assert topics.setIamPolicy(resource=topic, body=body).execute()["bindings"] == GRANT["policy"]["bindings"]
    assert status_of(topics.setIamPolicy(resource=topic, body=body)) == 409
    created = subscriptions.create(name=subscription, body={"topic": topic}).execute()
    assert conformance_google.list_type_problems("pubsub.v1", "Subscription", created) == []
    assert (created["pushConfig"], created["ackDeadlineSeconds"], created["state"]) == ({}, 10, "ACTIVE")
    history_id = user.post("watch", {"topicName": topic})["historyId"]
    [received] = subscriptions.pull(subscription=subscription, body={"maxMessages": 10}).execute()[
        "receivedMessages"
    ]
    data = json.loads(base64.b64decode(received["message"]["data"]))
    assert data == {"emailAddress": user.address, "historyId": int(history_id)}
    subscriptions.acknowledge(subscription=subscription, body={"ackIds": [received["ackId"]]}).execute()
    sim.move_clock(60)
    empty = {"maxMessages": 1, "returnImmediately": True}
    assert subscriptions.pull(subscription=subscription, body=empty).execute() == {}
    sim.deliver(user.address, make_message())
    assert subscriptions.pull(subscription=subscription, body=empty).execute()["receivedMessages"]


@pytest.mark.parametrize(
    "bindings",
    [
        1,
        "x",
        {"role": "roles/viewer"},
        [1],
        [{}],
        [{"role": "roles/viewer", "members": [{}]}],
        [{"role": "roles/viewer", "members": [None]}],
    ],
)
def test_a_malformed_policy_is_refused(user, client, names, bindings):
    """Follows "Policy", https://cloud.google.com/pubsub/docs/reference/rest/Shared.Types/Policy"""
    topic, _ = names
    client.topics().create(name=topic, body={}).execute()
    body = {"policy": {"bindings": bindings}}
    error = user.expect_error(400, f"/v1/{topic}:setIamPolicy", "POST", json=body)
    assert error["status"] == "INVALID_ARGUMENT"


def test_unacknowledged_messages_come_again_after_the_deadline(sim, client, names):
    topic, subscription = names
    subscriptions = client.subscriptions()
    client.topics().create(name=topic, body={}).execute()
    subscriptions.create(name=subscription, body={"topic": topic, "ackDeadlineSeconds": 20}).execute()
    message = {"data": base64.b64encode(b"hello").decode(), "attributes": {"a": "b"}}
    published = client.topics().publish(topic=topic, body={"messages": [message]}).execute()

    def pull():
        body = {"maxMessages": 5, "returnImmediately": True}
        return subscriptions.pull(subscription=subscription, body=body).execute().get("receivedMessages", [])

    [first] = pull()
    assert first["message"].items() >= (message | {"messageId": published["messageIds"][0]}).items()
    assert pull() == []
    ids = {"ackIds": [first["ackId"]]}
    longer = ids | {"ackDeadlineSeconds": 60}
    subscriptions.modifyAckDeadline(subscription=subscription, body=longer).execute()
    sim.move_clock(30)
    assert pull() == []
    sim.move_clock(31)
    [second] = pull()
    assert second["ackId"] != first["ackId"]
    released = {"ackIds": [second["ackId"]], "ackDeadlineSeconds": 0}
    subscriptions.modifyAckDeadline(subscription=subscription, body=released).execute()
    assert pull()


def test_a_push_subscription_is_created_changed_and_deleted(sim, client, names):
    topic, subscription = names
    topics, subscriptions = client.topics(), client.subscriptions()
    topics.create(name=topic, body={}).execute()
    with receiving() as receiver:
        push = {"pushEndpoint": receiver.url, "oidcToken": {"serviceAccountEmail": "p@x.example"}}
        created = subscriptions.create(
            name=subscription, body={"topic": topic, "pushConfig": push, "retryPolicy": {}}
        ).execute()
        assert created["pushConfig"]["oidcToken"]["audience"] == receiver.url
        topics.publish(topic=topic, body={"messages": [{"data": "aGVsbG8="}]}).execute()
        assert receiver.next().json["message"]["data"] == "aGVsbG8="
    body = {"maxMessages": 1}
    assert status_of(subscriptions.pull(subscription=subscription, body=body)) == 400
    subscriptions.modifyPushConfig(subscription=subscription, body={"pushConfig": {}}).execute()
    assert subscriptions.get(subscription=subscription).execute()["pushConfig"] == {}
    assert topics.subscriptions().list(topic=topic).execute() == {"subscriptions": [subscription]}
    listed = subscriptions.list(project="projects/mailsim").execute()["subscriptions"]
    assert subscription in {one["name"] for one in listed}
    topics.delete(topic=topic).execute()
    assert subscriptions.get(subscription=subscription).execute()["topic"] == "_deleted-topic_"
    subscriptions.delete(subscription=subscription).execute()
    assert status_of(subscriptions.get(subscription=subscription)) == 404
    assert status_of(topics.get(topic=topic)) == 404


def test_wrong_requests_get_googles_errors(client, google, sim, user, names):
    topic, subscription = names
    topics, subscriptions = client.topics(), client.subscriptions()
    topics.create(name=topic, body={}).execute()
    assert status_of(topics.create(name=topic, body={})) == 409
    assert status_of(topics.publish(topic=topic, body={"messages": [{}]})) == 400
    assert status_of(subscriptions.create(name=subscription, body={"topic": topic + "x"})) == 404
    ordered = {"topic": topic, "enableMessageOrdering": True}
    assert status_of(subscriptions.create(name=subscription, body=ordered)) == 501
    short = {"topic": topic, "ackDeadlineSeconds": 5}
    assert status_of(subscriptions.create(name=subscription, body=short)) == 400
    assert status_of(client.snapshots().list(project="projects/mailsim")) == 501
    asked = {"permissions": ["pubsub.topics.publish", "storage.objects.get"]}
    allowed = topics.testIamPermissions(resource=topic, body=asked).execute()
    assert allowed == {"permissions": ["pubsub.topics.publish"]}
    other = google.sign_in(sim, user.address, READONLY)
    other.expect_error(403, f"/v1/{topic}")
    other.expect_error(401, f"/v1/{topic}", headers={"authorization": ""})
