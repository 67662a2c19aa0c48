"""Gmail's filters, S/MIME certificates, client-side encryption and resumable uploads.

Follows the discovery document `gmail:v1`.
"Manage Gmail filters", https://developers.google.com/workspace/gmail/api/guides/filter_settings
"Upload attachments", https://developers.google.com/workspace/gmail/api/guides/uploads
"""

import base64
import io
from contextlib import closing

import httplib2
import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs7, pkcs12
from google.oauth2.credentials import Credentials
from google_auth_httplib2 import AuthorizedHttp
from googleapiclient.discovery import build
from googleapiclient.http import MediaIoBaseUpload

from mailsim.samples import signed_messages
from simulator.google_user import FULL, SCOPE, make_message

BASIC, SHARING = SCOPE + "settings.basic", SCOPE + "settings.sharing"
CHUNK = 256 * 1024


@pytest.fixture
def user(sim, google, address):
    return google.connect(sim, address, FULL, BASIC, SHARING)


@pytest.fixture
def delegated(sim, google, address):
    """A mailbox opened by a service account."""
    sim.create("gmail", address)
    key = sim.post("google/service-accounts", name="settings")
    scopes = [BASIC, SHARING]
    sim.post("google/delegations", client_id=key["client_id"], domain="example.com", scopes=scopes)
    return google.sign_in(sim, address, *scopes, client_id=key["client_id"])


def add_filter(user, criteria, **action):
    return user.post("settings/filters", {"criteria": criteria, "action": action})


def labels_on_arrival(user, raw):
    message_id = user.simulation.deliver(user.address, raw)["id"]
    return set(user.get(f"messages/{message_id}", format="minimal")["labelIds"])


def test_a_filter_labels_and_archives_arriving_mail(user):
    label = user.post("labels", {"name": "Invoices"})["id"]
    added = add_filter(
        user, {"from": "sender@example.org"}, addLabelIds=[label, "STARRED"], removeLabelIds=["INBOX"]
    )
    assert user.get("settings/filters") == {"filter": [added]}
    assert user.get(f"settings/filters/{added['id']}") == added
    labels = labels_on_arrival(user, make_message())
    assert {label, "STARRED", "UNREAD"} <= labels
    assert "INBOX" not in labels
    assert "INBOX" in labels_on_arrival(user, make_message(From="other@example.net"))
    assert user.request("DELETE", f"settings/filters/{added['id']}").status_code == 204
    assert label not in labels_on_arrival(user, make_message())
    assert user.get("settings/filters") == {}
    user.expect_error(404, f"settings/filters/{added['id']}")


@pytest.mark.parametrize(
    "criteria, matching, other",
    [
        ({"to": "team"}, make_message(To="Team <team@example.com>"), make_message()),
        ({"subject": "[Pets club]"}, make_message("Re: [Pets club] cats"), make_message("club of pets")),
        ({"query": '"my project"'}, make_message(body="about my project"), make_message(body="project my")),
        ({"negatedQuery": '"secret knock"'}, make_message(), make_message(body="the secret knock")),
        ({"size": 2000, "sizeComparison": "larger"}, make_message(body="x" * 3000), make_message()),
        ({"size": 2000, "sizeComparison": "smaller"}, make_message(), make_message(body="x" * 3000)),
        (
            {"hasAttachment": True},
            make_message(Content_Type="application/pdf; name=a.pdf", Content_Disposition="attachment"),
            make_message(Content_Type="message/disposition-notification"),
        ),
        ({"from": "sender@example.org", "subject": "Hello"}, make_message(), make_message("Bye")),
    ],
)
def test_a_message_must_meet_all_criteria(user, criteria, matching, other):
    add_filter(user, criteria, addLabelIds=["TRASH"])
    assert "TRASH" in labels_on_arrival(user, matching)
    assert "INBOX" in labels_on_arrival(user, other)


def test_filters_apply_to_mail_that_other_users_send(sim, google, user):
    add_filter(user, {"query": f"deliveredto:{user.address}"}, addLabelIds=["IMPORTANT"])
    sender = google.connect(sim, f"sender-{user.address}", FULL)
    raw = base64.urlsafe_b64encode(make_message(To=user.address)).decode()
    sender.post("messages/send", {"raw": raw})
    [message] = user.get("messages")["messages"]
    received = user.get(f"messages/{message['id']}")
    assert "IMPORTANT" in received["labelIds"]
    assert received["payload"]["headers"][0] == {"name": "Delivered-To", "value": user.address}


def test_invalid_filters_are_rejected(user):
    labels = [user.post("labels", {"name": name})["id"] for name in ("One", "Two")]
    criteria = {"from": "a@example.org"}
    for body in (
        {},
        {"criteria": criteria},
        {"criteria": criteria, "action": {"addLabelIds": ["Label_99"]}},
        {"criteria": criteria, "action": {"addLabelIds": labels}},
        {"criteria": criteria, "action": {"forward": "unknown@example.org"}},
        {"criteria": {"size": 1, "sizeComparison": "equal"}, "action": {"addLabelIds": ["TRASH"]}},
        {"criteria": {"nothing": 1}, "action": {"addLabelIds": ["TRASH"]}},
        {"criteria": {"size": "large"}, "action": {"addLabelIds": ["TRASH"]}},
    ):
        user.expect_error(400, "settings/filters", "POST", json=body)
    add_filter(user, criteria, addLabelIds=["TRASH"])
    again = {"criteria": criteria, "action": {"addLabelIds": ["TRASH"]}}
    error = user.expect_error(400, "settings/filters", "POST", json=again)
    assert (error["status"], error["message"]) == ("FAILED_PRECONDITION", "Filter already exists")


def test_smime_certificates_of_an_alias_are_stored(user):
    key, certificate = signed_messages.make_key(), signed_messages.make_certificate()
    file = pkcs12.serialize_key_and_certificates(b"x", key, certificate, None, BestAvailableEncryption(b"pw"))
    path = f"settings/sendAs/{user.address}/smimeInfo"
    body = {"pkcs12": base64.urlsafe_b64encode(file).decode(), "encryptedKeyPassword": "pw"}
    added = user.post(path, body)
    assert (added["issuerCn"], added["isDefault"]) == ("mail signer", False)
    assert added["pem"] == certificate.public_bytes(Encoding.PEM).decode()
    assert "pkcs12" not in added
    user.post(f"{path}/{added['id']}/setDefault", status=204)
    assert user.get(path) == {"smimeInfo": [added | {"isDefault": True}]}
    assert user.get(f"{path}/{added['id']}")["isDefault"]
    assert user.request("DELETE", f"{path}/{added['id']}").status_code == 204
    assert user.get(path) == {}
    user.expect_error(400, path, "POST", json=body | {"encryptedKeyPassword": "wrong"})
    user.expect_error(404, "settings/sendAs/other@example.org/smimeInfo")


def test_key_pairs_and_identities_of_client_side_encryption_are_stored(sim, delegated):
    chain = pkcs7.serialize_certificates([signed_messages.make_certificate()], Encoding.PEM).decode()
    keys = [{"kaclsKeyMetadata": {"kaclsUri": "https://keys.example.com", "kaclsData": "x"}}]
    pair = delegated.post("settings/cse/keypairs", {"pkcs7": chain, "privateKeyMetadata": keys})
    assert pair["enablementState"] == "enabled"
    path = f"settings/cse/keypairs/{pair['keyPairId']}"
    identity = {"emailAddress": delegated.address, "primaryKeyPairId": pair["keyPairId"]}
    assert delegated.post("settings/cse/identities", identity) == identity
    assert delegated.get("settings/cse/identities") == {"cseIdentities": [identity]}
    one = f"settings/cse/identities/{delegated.address}"
    assert delegated.get(one) == identity
    assert delegated.request("PATCH", one, json=identity).json() == identity
    assert delegated.request("DELETE", one).status_code == 204
    delegated.expect_error(404, one)
    disabled = delegated.post(f"{path}:disable", {})
    assert disabled["enablementState"] == "disabled"
    assert delegated.get(path) == disabled
    delegated.expect_error(400, "settings/cse/identities", "POST", json=identity)
    delegated.expect_error(400, f"{path}:obliterate", "POST", json={})
    assert "disableTime" not in delegated.post(f"{path}:enable", {})
    assert delegated.get("settings/cse/keypairs")["cseKeyPairs"][0]["keyPairId"] == pair["keyPairId"]


def test_client_side_encryption_is_restricted_to_service_accounts(user):
    user.expect_error(403, "settings/cse/identities")


def start_upload(user, path, metadata, http="POST"):
    answer = user.request(
        http,
        f"/resumable/upload/gmail/v1/users/me/{path}",
        params={"uploadType": "resumable"},
        json=metadata,
        headers={"x-upload-content-type": "message/rfc822"},
    )
    assert (answer.status_code, answer.content) == (200, b"")
    return answer.headers["location"]


def send_piece(user, location, content, content_range):
    return user.http.put(location, content=content, headers={"content-range": content_range})


def test_a_message_is_uploaded_in_pieces(user):
    raw = make_message(body="x" * CHUNK)
    location = start_upload(user, "messages", {"labelIds": ["STARRED"]})
    size = len(raw)
    state = send_piece(user, location, b"", f"bytes */{size}")
    assert (state.status_code, "range" in state.headers) == (308, False)
    first = send_piece(user, location, raw[:CHUNK], f"bytes 0-{CHUNK - 1}/{size}")
    assert (first.status_code, first.headers["range"]) == (308, f"bytes=0-{CHUNK - 1}")
    state = send_piece(user, location, b"", "bytes */*")
    assert (state.status_code, state.headers["range"]) == (308, f"bytes=0-{CHUNK - 1}")
    last = send_piece(user, location, raw[CHUNK:], f"bytes {CHUNK}-{size - 1}/{size}")
    assert (last.status_code, last.json()["labelIds"]) == (200, ["STARRED"])
    assert user.raw(last.json()["id"]) == raw
    assert send_piece(user, location, b"", f"bytes */{size}").json() == last.json()
    assert len(user.get("messages")["messages"]) == 1


def test_wrong_pieces_of_an_upload_are_rejected(user):
    location = start_upload(user, "messages", {})
    assert send_piece(user, location, b"abc", "bytes 0-2/9").status_code == 400
    assert send_piece(user, location, b"abc", "bytes 6-8/9").status_code == 400
    assert send_piece(user, location, b"abc", "abc").status_code == 400
    assert send_piece(user, location, b"", "bytes */10").status_code == 400
    assert user.http.put(location + "x", content=b"abc").status_code == 404
    path = "/resumable/upload/gmail/v1/users/me/messages"
    params = {"uploadType": "resumable"}
    user.expect_error(400, path, "POST", params=params, headers={"x-upload-content-type": "image/png"})
    user.expect_error(400, path, "POST", params=params, json={"nothing": 1})
    user.expect_error(401, path, "POST", params=params, headers={"authorization": "Bearer x"})


@pytest.fixture
def client(sim, user):
    """The resource `users` of Google's client."""
    # The client uploads over TLS, whatever the endpoint is. `build_http` treats 308 in the same way.
    transport = httplib2.Http(ca_certs=sim.ca)
    transport.redirect_codes = transport.redirect_codes - {308}
    with closing(AuthorizedHttp(Credentials(user.tokens["access_token"]), transport)) as http:
        options = {"api_endpoint": sim.https}
        yield build("gmail", "v1", http=http, client_options=options, static_discovery=True).users()


def make_media(raw):
    return MediaIoBaseUpload(io.BytesIO(raw), mimetype="message/rfc822", chunksize=CHUNK, resumable=True)


def test_googles_client_uploads_a_draft_in_pieces(user, client):
    raw = make_message(To=user.address, body="y" * (2 * CHUNK))
    draft = client.drafts().create(userId="me", media_body=make_media(raw)).execute()
    assert user.raw(draft["message"]["id"]) == raw
    sent = client.drafts().send(userId="me", body={"id": draft["id"]}, media_body=make_media(raw)).execute()
    assert "SENT" in sent["labelIds"]


@pytest.mark.parametrize(
    "method, metadata, labels",
    [
        ("insert", {"labelIds": ["STARRED"]}, {"STARRED"}),
        ("import_", {"labelIds": ["STARRED", "INBOX"]}, {"STARRED", "INBOX"}),
        ("send", {}, {"SENT"}),
    ],
)
def test_googles_client_uploads_a_message_in_pieces(user, client, method, metadata, labels):
    """Follows "Upload attachments", https://developers.google.com/workspace/gmail/api/guides/uploads"""
    raw = make_message(
        From=user.address,
        To="x@example.org",
        Date="Sun, 01 Mar 2026 00:00:00 +0000",
        Message_ID="<a@example.com>",
        body="y" * (2 * CHUNK),
    )
    upload = getattr(client.messages(), method)(userId="me", body=metadata, media_body=make_media(raw))
    progress, message = upload.next_chunk()
    received = []
    while message is None:
        received.append(progress.resumable_progress)
        progress, message = upload.next_chunk()
    assert received == [CHUNK, 2 * CHUNK]
    assert labels <= set(message["labelIds"])
    assert user.raw(message["id"]) == raw
