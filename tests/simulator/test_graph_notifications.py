"""Change notifications: recipients, content, batching, retries, and resource data."""

import base64
import hmac
import json

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, padding, serialization
from cryptography.hazmat.primitives.asymmetric import padding as rsa_padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from simulator.certificates import make_certificate
from simulator.graph_push_receiver import receive_pushes
from simulator.microsoft_user import IMMUTABLE
from simulator.subscription_requests import later, subscribe, subscription_error, subscription_request


@pytest.fixture
def receiver():
    with receive_pushes() as running:
        yield running


@pytest.fixture
def user(sim, microsoft, address):
    sim.create("outlook", address)
    return microsoft.sign_in(sim, address, "Mail.ReadWrite", seconds=864000)


@pytest.fixture
def options(sim):
    defaults = sim.get("microsoft/options")
    yield lambda **more: sim.control.patch("microsoft/options", json=more).raise_for_status()
    sim.control.patch("microsoft/options", json=defaults)


def settled(sim, receiver):
    sim.post("settle")
    return receiver.items()


def watch(user, receiver, headers=IMMUTABLE, **more):
    return user.post("/subscriptions", subscription_request(user, receiver, **more), headers=headers)


def changes_in(items):
    """The changes, in the order of their arrival. Pushes overtake each other, as those of Graph do."""
    return [(item["changeType"], item["resourceData"]["id"]) for item in items]


def test_added_changed_moved_and_deleted_messages_are_notified(sim, user, receiver):
    made = watch(user, receiver)
    one = sim.deliver(user.address, kind="plain")["id"]
    (item,) = settled(sim, receiver)
    assert item["subscriptionId"] == made["id"]
    assert item["clientState"] == "secret"
    assert (
        item["tenantId"]
        == jwt.decode(user.tokens["access_token"], options={"verify_signature": False})["tid"]
    )
    assert item["resourceData"]["@odata.type"] == "#Microsoft.Graph.Message"
    assert item["resource"] == item["resourceData"]["@odata.id"]
    assert one in item["resource"]
    sim.act(user.address, one, "mark", read=True)
    sim.act(user.address, one, "move", folder="archive")
    sim.control.delete(f"mailboxes/{user.address}/messages/{one}")
    assert changes_in([item]) == [("created", one)]
    assert sorted(changes_in(settled(sim, receiver))) == [
        ("deleted", one),
        ("updated", one),
        ("updated", one),
    ]


def test_without_immutable_ids_a_move_is_a_deletion_and_a_creation(sim, user, receiver):
    watch(user, receiver, headers=None)
    sim.deliver(user.address, kind="plain")
    ((_, old),) = changes_in(settled(sim, receiver))
    user.post(f"messages/{old}/move", {"destinationId": "archive"})
    (come, gone) = sorted(changes_in(settled(sim, receiver)))
    assert gone == ("deleted", old)
    assert come[0] == "created"
    assert user.get(f"messages/{come[1]}")["id"] == come[1] != old


def test_a_subscription_can_watch_a_single_folder(sim, user, receiver):
    watch(user, receiver, resource="me/mailFolders('inbox')/messages")
    one = sim.deliver(user.address, kind="plain")["id"]
    sim.act(user.address, one, "move", folder="archive")
    sim.act(user.address, one, "mark", read=True)
    sim.act(user.address, one, "move", folder="inbox")
    assert sorted(changes_in(settled(sim, receiver))) == [
        ("created", one),
        ("created", one),
        ("deleted", one),
    ]


def test_only_the_requested_change_types_are_notified(sim, user, receiver):
    watch(user, receiver, changeType="updated")
    one = sim.deliver(user.address, kind="plain")["id"]
    sim.act(user.address, one, "mark", read=True)
    assert changes_in(settled(sim, receiver)) == [("updated", one)]


def test_entering_a_filter_is_a_creation_and_leaving_it_a_deletion(sim, user, receiver):
    watch(user, receiver, resource="me/messages?$filter=isRead eq true")
    one = sim.deliver(user.address, kind="plain")["id"]
    sim.act(user.address, one, "mark", read=True)
    sim.act(user.address, one, "mark", flag="flagged")
    sim.act(user.address, one, "mark", read=False)
    assert sorted(changes_in(settled(sim, receiver))) == [
        ("created", one),
        ("deleted", one),
        ("updated", one),
    ]


def test_simultaneous_changes_of_several_mailboxes_share_a_request(sim, microsoft, user, receiver):
    other = microsoft.connect(sim, f"other-{user.address}")
    watch(user, receiver)
    watch(user, receiver, resource="me/mailFolders('inbox')/messages")
    watch(other, receiver)
    sim.post(f"mailboxes/{user.address}/messages", kind="plain", count=5)
    sim.deliver(other.address, kind="plain")
    sim.post("settle")
    deliveries = receiver.waiting()
    items = [item for delivery in deliveries for item in delivery.value]
    assert len(items) == 11
    assert len(deliveries) < 11
    assert any(len({item["subscriptionId"] for item in each.value}) > 1 for each in deliveries)
    assert all(delivery.headers["content-type"].startswith("application/json") for delivery in deliveries)


def test_the_query_of_the_url_is_preserved(sim, user, receiver):
    watch(user, receiver, notificationUrl=receiver.url + "?mailbox=4%202")
    sim.deliver(user.address, kind="plain")
    assert receiver.next().path.endswith("?mailbox=4 2")


def test_a_refused_notification_is_retried_with_backoff_for_four_hours(sim, user, receiver):
    watch(user, receiver)
    receiver.answer(*[500] * 100)
    sim.deliver(user.address, kind="plain")
    sim.post("settle")
    assert len(receiver.waiting()) == 1
    for wait in (10, 20, 40):
        sim.move_clock(wait - 1)
        assert receiver.waiting() == []
        sim.move_clock(1)
        assert len(receiver.waiting()) == 1
    sim.move_clock(4 * 3600)
    assert 5 < len(receiver.waiting()) < 20
    sim.move_clock(4 * 3600)
    assert receiver.waiting() == []
    meter = sim.meter(user.address)
    assert meter["pushes_dropped"] == 1
    assert meter["pushes_acknowledged"] == 0


def test_a_recovered_endpoint_gets_pending_notifications(sim, user, receiver):
    watch(user, receiver)
    receiver.answer(503, 404)
    one = sim.deliver(user.address, kind="plain")["id"]
    sim.move_clock(60)
    items = receiver.items()
    assert changes_in(items) == [("created", one)] * 3
    assert sim.meter(user.address)["pushes_acknowledged"] == 1


def test_a_slow_endpoint_is_delayed_and_a_very_slow_one_dropped(sim, user, receiver, options):
    options(first_timeout=0.5, retry_timeout=1.5)
    watch(user, receiver, lifecycleNotificationUrl=receiver.url.replace("/hook", "/life"))
    receiver.seconds = 0.9
    one = sim.deliver(user.address, kind="plain")["id"]
    sim.move_clock(15)
    # The first attempt times out; the retry has a longer timeout and succeeds.
    assert changes_in(receiver.items()) == [("created", one)] * 2
    receiver.seconds = 0.0
    two = sim.deliver(user.address, kind="plain")["id"]
    sim.post("settle")
    assert receiver.waiting() == []
    sim.move_clock(600)
    assert changes_in(receiver.items()) == [("created", two)]

    receiver.seconds = 1.8
    sim.move_clock(600)
    sim.deliver(user.address, kind="plain")
    sim.move_clock(15)
    receiver.seconds = 0.0
    lost = sim.deliver(user.address, kind="plain")["id"]
    sim.post("settle")
    sim.move_clock(700)
    items = receiver.items()
    assert ("created", lost) not in changes_in([item for item in items if "changeType" in item])
    assert [item["lifecycleEvent"] for item in items if "lifecycleEvent" in item] == ["missed"]
    after = sim.deliver(user.address, kind="plain")["id"]
    assert ("created", after) in changes_in(settled(sim, receiver))


def test_faults_lose_duplicate_delay_and_reorder_pushes(sim, user, receiver):
    watch(user, receiver)
    sim.fault("push_lost", mailbox=user.address, times=1)
    sim.deliver(user.address, kind="plain")
    assert settled(sim, receiver) == []
    sim.fault("push_doubled", mailbox=user.address, times=1)
    two = sim.deliver(user.address, kind="plain")["id"]
    assert changes_in(settled(sim, receiver)) == [("created", two)] * 2
    sim.fault("push_late", mailbox=user.address, times=1, seconds=120)
    three = sim.deliver(user.address, kind="plain")["id"]
    sim.move_clock(119)
    assert receiver.waiting() == []
    sim.move_clock(1)
    assert changes_in(settled(sim, receiver)) == [("created", three)]
    sim.fault("push_reordered", mailbox=user.address, times=1)
    four = sim.deliver(user.address, kind="plain")["id"]
    five = sim.deliver(user.address, kind="plain")["id"]
    assert changes_in(settled(sim, receiver)) == [("created", five), ("created", four)]


def test_a_push_can_arrive_before_its_message_is_readable(sim, user, receiver):
    watch(user, receiver)
    sim.fault("not_readable", mailbox=user.address, times=1, seconds=5)
    sim.deliver(user.address, kind="plain")
    ((_, one),) = changes_in(settled(sim, receiver))
    assert user.expect_error(404, f"messages/{one}")["code"] == "ErrorItemNotFound"
    sim.move_clock(5)
    assert user.get(f"messages/{one}", IMMUTABLE)["id"] == one


def test_an_expired_subscription_gets_no_notifications(sim, user, receiver):
    watch(user, receiver, expirationDateTime=later(user, minutes=45))
    sim.move_clock(46 * 60)
    sim.deliver(user.address, kind="plain")
    assert settled(sim, receiver) == []


def test_a_created_push_is_echoed_by_an_update_when_switched_on(sim, user, receiver, options):
    options(echo_updates=True)
    watch(user, receiver)
    one = sim.deliver(user.address, kind="plain")["id"]
    assert sorted(changes_in(settled(sim, receiver))) == [("created", one), ("updated", one)]


def test_resource_data_is_encrypted_for_the_subscriber(sim, user, receiver):
    private, certificate = make_certificate()
    loaded = x509.load_pem_x509_certificate(certificate.encode())
    der = base64.b64encode(loaded.public_bytes(serialization.Encoding.DER)).decode()
    watch(
        user,
        receiver,
        resource="me/messages?$select=subject,receivedDateTime",
        includeResourceData=True,
        encryptionCertificate=der,
        encryptionCertificateId="key-1",
        expirationDateTime=later(user, minutes=1440),
    )
    one = sim.deliver(user.address, kind="plain", subject="Sealed")["id"]
    body = receiver.next().json
    (item,) = body["value"]
    sealed = item["encryptedContent"]
    assert sealed["encryptionCertificateId"] == "key-1"
    assert sealed["encryptionCertificateThumbprint"] == loaded.fingerprint(hashes.SHA1()).hex().upper()
    key = serialization.load_pem_private_key(private.encode(), None).decrypt(
        base64.b64decode(sealed["dataKey"]),
        rsa_padding.OAEP(rsa_padding.MGF1(hashes.SHA1()), hashes.SHA1(), None),
    )
    data = base64.b64decode(sealed["data"])
    assert hmac.digest(key, data, "sha256") == base64.b64decode(sealed["dataSignature"])
    decryptor = Cipher(algorithms.AES(key), modes.CBC(key[:16])).decryptor()
    unpadder = padding.PKCS7(128).unpadder()
    plain = unpadder.update(decryptor.update(data) + decryptor.finalize()) + unpadder.finalize()
    content = json.loads(plain)
    assert (content["id"], content["subject"]) == (one, "Sealed")
    assert content["receivedDateTime@odata.type"] == "#DateTimeOffset"
    (token,) = body["validationTokens"]
    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["aud"] == sim.ready["clients"]["outlook"]["client_id"]
    assert "0bf30f3b-4a52-48df-9a82-234910c4a086" in {claims.get("azp"), claims.get("appid")}


def test_resource_data_requires_select_without_body_and_expires_after_a_day(sim, user, receiver):
    _, certificate = make_certificate()
    encoded = base64.b64encode(certificate.encode()).decode()
    fine = {
        "includeResourceData": True,
        "encryptionCertificate": encoded,
        "encryptionCertificateId": "key-1",
        "resource": "me/messages?$select=subject",
        "expirationDateTime": later(user, minutes=1400),
    }
    for change in (
        {"resource": "me/messages"}, {"resource": "me/messages?$select=body"},
        {"encryptionCertificateId": None}, {"encryptionCertificate": "eA=="},
        {"expirationDateTime": later(user, minutes=1500)},
    ):  # fmt: skip
        subscription_error(user, receiver, **{**fine, **change})
    assert subscribe(user, receiver, **fine)["includeResourceData"] is True


def test_the_push_log_names_mailboxes_and_subscriptions(sim, user, receiver):
    made = subscribe(user, receiver)
    sim.deliver(user.address, subject="news")
    receiver.next()
    sim.post("settle")
    entries = sim.get("pushes", mailbox=user.address, provider="outlook")
    assert [entry["endpoint"] for entry in entries] == ["push", "handshake"]
    assert {entry["subscription"] for entry in entries} == {made["id"]}
