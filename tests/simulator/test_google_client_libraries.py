"""Google's own client libraries work against the simulator."""

import hashlib
import time
from collections.abc import Generator
from contextlib import closing
from typing import Any

import google.auth.exceptions
import google.auth.transport.requests
import google.oauth2.credentials
import google.oauth2.id_token
import httplib2
import httpx2
import jwt
import pytest
import requests
from google_auth_httplib2 import AuthorizedHttp
from google_auth_oauthlib.flow import Flow
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError
from googleapiclient.http import BatchHttpRequest

from simulator.driver import Simulation, running
from simulator.google_user import READONLY, GoogleUser, GoogleUsers, decode_base64url, make_message
from simulator.push_receiver import receiving

MESSAGES = 120
ADDRESS = "referee@example.com"


@pytest.fixture(scope="module")
def shared() -> Generator[Simulation]:
    """A simulator in real time, because these libraries use the machine's clock."""
    with running("--quota", "off") as simulation:
        simulation.create("gmail", ADDRESS, messages=MESSAGES)
        yield simulation


@pytest.fixture
def user(sim: Simulation, google: GoogleUsers) -> GoogleUser:
    return google.sign_in(sim, ADDRESS, "openid", READONLY)


@pytest.fixture
def service(user: GoogleUser) -> Generator[Any]:
    credentials = google.oauth2.credentials.Credentials(user.tokens["access_token"])
    with closing(AuthorizedHttp(credentials, httplib2.Http(timeout=60))) as http:
        api = build(
            "gmail",
            "v1",
            http=http,
            client_options={"api_endpoint": user.simulation.http},
            static_discovery=True,
        )
        with closing(api):
            yield api.users()


def listed(collection: Any, key: str, **arguments: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    request = collection.list(userId="me", **arguments)
    while request is not None:
        page = request.execute()
        found += page.get(key, [])
        request = collection.list_next(request, page)
    return found


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_listing_finds_every_message_newest_first(user, service):
    truth = user.simulation.truth(ADDRESS)
    found = listed(service.messages(), "messages", includeSpamTrash=True, maxResults=37)
    assert [entry["id"] for entry in found] == [message["id"] for message in reversed(truth)]
    assert [entry["threadId"] for entry in found] == [message["thread"] for message in reversed(truth)]


def test_raw_messages_are_the_delivered_bytes(user, service):
    truth = {message["id"]: message for message in user.simulation.truth(ADDRESS)}
    for entry in listed(service.messages(), "messages", maxResults=100, labelIds=["SENT"]):
        raw = decode_base64url(
            service.messages().get(userId="me", id=entry["id"], format="raw").execute()["raw"]
        )
        assert digest(raw) == truth[entry["id"]]["sha256"]


def test_all_formats_agree(user, service):
    newest = user.simulation.truth(ADDRESS)[-1]
    shapes = {
        form: service.messages().get(userId="me", id=newest["id"], format=form).execute()
        for form in ("minimal", "metadata", "full", "raw")
    }
    common = {"id", "threadId", "labelIds", "snippet", "sizeEstimate", "historyId", "internalDate"}
    assert set(shapes["minimal"]) == common
    assert set(shapes["metadata"]) == set(shapes["full"]) == common | {"payload"}
    assert set(shapes["raw"]) == common | {"raw"}
    assert all({key: shape[key] for key in common} == shapes["minimal"] for shape in shapes.values())
    assert shapes["minimal"]["sizeEstimate"] == newest["size"]
    assert sorted(shapes["minimal"]["labelIds"]) == sorted(newest["folders"])
    assert int(shapes["minimal"]["internalDate"]) == newest["received"]
    assert set(shapes["metadata"]["payload"]) == {"mimeType", "headers"}
    narrow = service.messages().get(
        userId="me", id=newest["id"], format="metadata", metadataHeaders=["subject", "Message-ID"]
    )
    names = [header["name"] for header in narrow.execute()["payload"]["headers"]]
    assert sorted(name.lower() for name in names) == ["message-id", "subject"]


def parts_of(payload: dict[str, Any]) -> Generator[dict[str, Any]]:
    yield payload
    for part in payload.get("parts", []):
        yield from parts_of(part)


def test_attachments_are_exact_and_their_ids_change(user, service):
    sim = user.simulation
    for kind in ("attachment", "inline-image", "nested", "forward", "signed", "meeting"):
        sim.deliver(ADDRESS, kind=kind)
    with_files = [message for message in sim.truth(ADDRESS) if message["attachments"]]
    assert len(with_files) > 10
    for message in with_files[-40:]:
        first = service.messages().get(userId="me", id=message["id"]).execute()
        second = service.messages().get(userId="me", id=message["id"]).execute()
        truth = {file["part"]: file for file in message["attachments"]}
        seen = 0
        for one, other in zip(parts_of(first["payload"]), parts_of(second["payload"]), strict=True):
            file = truth.get(one["partId"])
            if file is None or not file["size"]:
                continue
            seen += 1
            assert one["body"]["attachmentId"] != other["body"]["attachmentId"]
            assert one["filename"] == file["name"]
            assert one["body"]["size"] == file["size"]
            for attachment_id in (one["body"]["attachmentId"], other["body"]["attachmentId"]):
                got = (
                    service.messages()
                    .attachments()
                    .get(userId="me", messageId=message["id"], id=attachment_id)
                    .execute()
                )
                assert got["size"] == file["size"]
                assert digest(decode_base64url(got["data"])) == file["sha256"]
        assert seen == sum(file["size"] > 0 for file in message["attachments"])


def test_threads_contain_every_message_once(user, service):
    truth = user.simulation.truth(ADDRESS)
    threads = listed(service.threads(), "threads", includeSpamTrash=True, maxResults=50)
    assert len({thread["id"] for thread in threads}) == len(threads) == len({m["thread"] for m in truth})
    members: dict[str, list[str]] = {}
    for message in truth:
        members.setdefault(message["thread"], []).append(message["id"])
    longest = max(members, key=lambda thread: len(members[thread]))
    got = service.threads().get(userId="me", id=longest, format="metadata").execute()
    assert [message["id"] for message in got["messages"]] == members[longest]
    assert len(members[longest]) > 1


def test_label_counts_are_correct(user, service):
    truth = user.simulation.truth(ADDRESS)
    labels = {label["id"]: label for label in service.labels().list(userId="me").execute()["labels"]}
    assert {"INBOX", "SENT", "TRASH", "SPAM", "UNREAD", "CATEGORY_UPDATES"} <= set(labels)
    for label_id in ("INBOX", "SENT", "TRASH", "STARRED"):
        label = service.labels().get(userId="me", id=label_id).execute()
        holding = [message for message in truth if label_id in message["folders"]]
        assert label["messagesTotal"] == len(holding)
        assert label["messagesUnread"] == sum(not message["read"] for message in holding)
        assert label["threadsTotal"] == len({message["thread"] for message in holding})


def test_history_lists_every_change_once(user, service):
    sim = user.simulation
    start = service.getProfile(userId="me").execute()["historyId"]
    sent = [sim.deliver(ADDRESS, make_message(subject=f"history {number}"))["id"] for number in range(7)]
    sim.act(ADDRESS, sent[0], "trash")
    sim.act(ADDRESS, sent[1], "mark", read=True)
    sim.control.delete(f"mailboxes/{ADDRESS}/messages/{sent[2]}")
    records = listed(service.history(), "history", startHistoryId=start, maxResults=3)
    ids = [int(record["id"]) for record in records]
    assert ids == sorted(set(ids))
    assert ids[0] > int(start)
    added = [each["message"]["id"] for record in records for each in record.get("messagesAdded", [])]
    assert added == sent
    assert [
        (each["message"]["id"], each["labelIds"])
        for record in records
        for each in record.get("labelsAdded", [])
    ] == [(sent[0], ["TRASH"])]
    removed = [
        (each["message"]["id"], each["labelIds"])
        for record in records
        for each in record.get("labelsRemoved", [])
    ]
    assert removed == [(sent[0], ["INBOX"]), (sent[1], ["UNREAD"])]
    deleted = [each["message"]["id"] for record in records for each in record.get("messagesDeleted", [])]
    assert deleted == [sent[2]]
    latest = service.history().list(userId="me", startHistoryId=ids[-1]).execute()
    assert latest == {"historyId": str(ids[-1])}


@pytest.mark.parametrize("path", ["/batch", "/batch/gmail/v1"])
def test_a_batch_answers_every_call_by_its_id(user, service, path):
    truth = {message["id"]: message for message in user.simulation.truth(ADDRESS)}
    answers: dict[str, Any] = {}
    failures: dict[str, HttpError] = {}

    def note(request_id: str, answer: Any, error: HttpError | None) -> None:
        if error is None:
            answers[request_id] = answer
        else:
            failures[request_id] = error

    batch = BatchHttpRequest(callback=note, batch_uri=user.simulation.http + path)
    wanted = list(truth)[:49]
    for message_id in wanted:
        batch.add(service.messages().get(userId="me", id=message_id, format="raw"), request_id=message_id)
    batch.add(service.messages().get(userId="me", id="18c9a1b2c3d4e5f6"), request_id="missing")
    batch.execute()
    assert {key: digest(decode_base64url(value["raw"])) for key, value in answers.items()} == {
        key: truth[key]["sha256"] for key in wanted
    }
    assert [error.status_code for error in failures.values()] == [404]
    assert failures["missing"].error_details == [
        {"message": "Requested entity was not found.", "domain": "global", "reason": "notFound"}
    ]


def test_the_client_parses_errors(service):
    with pytest.raises(HttpError) as raised:
        service.messages().get(userId="me", id="nosuchmessageid").execute()
    assert raised.value.status_code == 400
    assert raised.value.reason == "Invalid id value"


def test_google_auth_refreshes_and_keeps_its_refresh_token(user, sim):
    client = sim.ready["clients"]["gmail"]
    credentials = google.oauth2.credentials.Credentials(
        None,
        refresh_token=user.tokens["refresh_token"],
        token_uri=f"{sim.http}/token",
        client_id=client["client_id"],
        client_secret=client["client_secret"],
    )
    with requests.Session() as session:
        credentials.refresh(google.auth.transport.requests.Request(session))
        assert credentials.valid
        assert credentials.refresh_token == user.tokens["refresh_token"]
        headers: dict[str, str] = {}
        credentials.apply(headers)
        profile = session.get(f"{sim.http}/gmail/v1/users/me/profile", headers=headers)
        assert profile.json()["emailAddress"] == ADDRESS
        sim.post(f"mailboxes/{ADDRESS}/revoke")
        with pytest.raises(google.auth.exceptions.RefreshError) as raised:
            credentials.refresh(google.auth.transport.requests.Request(session))
    assert raised.value.args[1] == {
        "error": "invalid_grant",
        "error_description": "Token has been expired or revoked.",
    }


def test_google_auth_oauthlib_connects_an_account_through_the_consent_page(sim, monkeypatch):
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")  # the simulator's plain port
    client = sim.ready["clients"]["gmail"]
    config = {"web": client | {"auth_uri": f"{sim.http}/o/oauth2/v2/auth", "token_uri": f"{sim.http}/token"}}
    flow = Flow.from_client_config(
        config,
        ["openid", READONLY],
        redirect_uri="http://127.0.0.1:8080/callback",
        autogenerate_code_verifier=True,
    )
    with closing(flow.oauth2session):
        url, state = flow.authorization_url(access_type="offline", prompt="consent", nonce="n-0S6_WzA2Mj")
        with httpx2.Client(trust_env=False) as browser:
            assert "wants to access your account" in browser.get(url).text
            answer = browser.post(
                url,
                data={"account": ADDRESS, "granted": [READONLY], "decision": "allow"},
                follow_redirects=False,
            )
        back = httpx2.URL(answer.headers["location"])
        assert back.params["state"] == state
        flow.fetch_token(code=back.params["code"])
        credentials = flow.credentials
    assert credentials.refresh_token
    assert set(credentials.granted_scopes) == {"openid", READONLY}
    with requests.Session() as session:
        claims = google.oauth2.id_token.verify_token(
            credentials.id_token,
            google.auth.transport.requests.Request(session),
            audience=client["client_id"],
            certs_url=f"{sim.http}/oauth2/v1/certs",
        )
    assert claims["iss"] == "https://accounts.google.com"
    assert claims["nonce"] == "n-0S6_WzA2Mj"
    assert len(claims["sub"]) == 21


@pytest.mark.parametrize("certs", ["/oauth2/v1/certs", "/oauth2/v3/certs"])
def test_google_auth_verifies_the_push_token(user, sim, certs):
    topic, account = "projects/mailsim/topics/referee", "pusher@mailsim.iam.gserviceaccount.com"
    with receiving() as receiver, requests.Session() as session:
        sim.post("google/topics", name=topic)
        sim.post(
            "google/subscriptions",
            name="projects/mailsim/subscriptions/referee",
            topic=topic,
            push_endpoint=receiver.url + "/push?token=abc",
            service_account=account,
            audience="https://postroom.example/push",
        )
        before = time.time()
        user.post("watch", {"topicName": topic})
        delivery = receiver.next()
        token = delivery.headers["authorization"].removeprefix("Bearer ")
        request = google.auth.transport.requests.Request(session)
        claims = google.oauth2.id_token.verify_token(
            token, request, audience="https://postroom.example/push", certs_url=sim.http + certs
        )
        assert (claims["email"], claims["email_verified"]) == (account, True)
        assert claims["exp"] - claims["iat"] == 3600
        assert claims["exp"] > before
        with pytest.raises((google.auth.exceptions.GoogleAuthError, jwt.InvalidAudienceError)):
            google.oauth2.id_token.verify_token(
                token, request, audience="https://other.example/push", certs_url=sim.http + certs
            )
        user.post("stop", status=204)
