"""Batch requests: envelope, limits, and errors of single calls and of the whole batch."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailsim.gmail import batch
from mailsim.gmail.errors import GmailError

TYPE = 'multipart/mixed; boundary="===x=="'


def part(line: str, content_id: str = "", headers: str = "", body: str = "") -> str:
    name = f"Content-ID: {content_id}\r\n" if content_id else ""
    return (
        f"--===x==\r\nContent-Type: application/http\r\n{name}\r\n{line} HTTP/1.1\r\n{headers}\r\n{body}\r\n"
    )


def envelope(*parts: str) -> bytes:
    return ("".join(parts) + "--===x==--\r\n").encode()


@pytest.fixture
def user(sim, google, address):
    return google.connect(sim, address, messages=10, spread=False)


def send(user, body, content_type=TYPE, path="/batch/gmail/v1", **headers):
    return user.request("POST", path, content=body, headers={"content-type": content_type, **headers})


def answers(response):
    """Return content ID, status line and body of each part."""
    assert response.status_code == 200, response.text
    boundary = response.headers["content-type"].partition("boundary=")[2]
    pieces = response.content.split(f"--{boundary}".encode())
    assert pieces[-1] == b"--\r\n"
    found = []
    for piece in pieces[1:-1]:
        outer, head, body = piece.split(b"\r\n\r\n", 2)
        names = dict(line.split(b": ", 1) for line in outer.strip().split(b"\r\n"))
        found.append((names.get(b"Content-ID", b"").decode(), head.split(b"\r\n")[0].decode(), body.decode()))
    return found


def test_batch_answers_keep_order_and_content_ids(user):
    body = envelope(
        part("GET /gmail/v1/users/me/profile?prettyPrint=false", "<one + 1>"),
        part("GET /gmail/v1/users/me/messages/zz", "<two>"),
        part("GET /gmail/v1/users/me/labels/INBOX?fields=id&prettyPrint=false", "plain"),
        part("GET /gmail/v1/users/me/nothing"),
    )
    got = answers(send(user, body))
    assert [entry[0] for entry in got] == ["<response-one + 1>", "<response-two>", "response-plain", ""]
    assert [entry[1] for entry in got] == [
        "HTTP/1.1 200 OK",
        "HTTP/1.1 400 Bad Request",
        "HTTP/1.1 200 OK",
        "HTTP/1.1 404 Not Found",
    ]
    assert got[0][2].startswith('{"emailAddress":"')
    assert got[2][2] == '{"id":"INBOX"}\r\n'


def test_bare_line_feeds_are_accepted(user):
    body = envelope(part("GET /gmail/v1/users/me/profile", "<a>")).replace(b"\r\n", b"\n")
    assert answers(send(user, body, path="/batch"))[0][1] == "HTTP/1.1 200 OK"


def test_outer_headers_apply_to_calls_and_inner_headers_win(user):
    body = envelope(
        part("GET /gmail/v1/users/me/profile", "<a>"),
        part("GET /gmail/v1/users/me/profile", "<b>", "Authorization: Bearer wrong\r\n"),
    )
    assert [entry[1] for entry in answers(send(user, body))] == [
        "HTTP/1.1 200 OK",
        "HTTP/1.1 401 Unauthorized",
    ]
    bare = send(user, body, authorization="")
    assert [entry[1] for entry in answers(bare)] == ["HTTP/1.1 401 Unauthorized", "HTTP/1.1 401 Unauthorized"]


def test_calls_with_a_body_are_executed(sim, google, user):
    owner = google.sign_in(sim, user.address, "https://mail.google.com/")
    newest = owner.get("messages", labelIds="INBOX")["messages"][0]["id"]
    text = '{"addLabelIds":["STARRED"]}'
    line = f"POST /gmail/v1/users/me/messages/{newest}/modify"
    headers = f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n"
    got = answers(send(owner, envelope(part(line, "<a>", headers, text))))
    assert "STARRED" in got[0][2]


def test_a_batch_has_at_most_a_hundred_calls(sim, user):
    sim.control.patch("google/options", json={"concurrent_calls": 0})
    one = part("GET /gmail/v1/users/me/profile", "<a>")
    assert len(answers(send(user, envelope(*[one] * 100)))) == 100
    refused = send(user, envelope(*[one] * 101))
    assert refused.status_code == 400
    assert "exceeds the maximum of 100" in refused.json()["error"]["message"]
    sim.control.patch("google/options", json={"concurrent_calls": 50})


def test_calls_of_a_batch_count_singly_and_as_concurrent(sim, user):
    one = part("GET /gmail/v1/users/me/profile", "<a>")
    got = answers(send(user, envelope(*[one] * 60)))
    assert [entry[1] for entry in got].count("HTTP/1.1 200 OK") == 50
    assert [entry[1] for entry in got].count("HTTP/1.1 429 Too Many Requests") == 10
    meter = sim.meter(user.address)
    assert (meter["units"], meter["rejections"], meter["calls"]["getProfile"]) == (50, 10, 60)


def test_faults_affect_single_calls_of_a_batch(sim, user):
    sim.fault("throttle", mailbox=user.address, endpoint="getProfile", skip=1, times=1)
    one = part("GET /gmail/v1/users/me/profile", "<a>")
    codes = [entry[1].split()[1] for entry in answers(send(user, envelope(one, one, one)))]
    assert codes == ["200", "429", "200"]


@pytest.mark.parametrize(
    "body, content_type",
    [
        (b"", TYPE),
        (b"nonsense", TYPE),
        (envelope(), TYPE),
        (envelope("--===x==\r\n\r\nGET / HTTP/1.1\r\n\r\n"), TYPE),
        (envelope("--===x==\r\nContent-Type: application/http\r\n\r\n\r\n"), TYPE),
        (envelope("--===x==\r\nContent-Type: application/http\r\n\r\nGET\r\n\r\n"), TYPE),
        (
            envelope(
                "--===x==\r\nContent-Type: application/http\r\n\r\nGET /a HTTP/1.1\r\nno header\r\n\r\n"
            ),
            TYPE,
        ),
        (envelope(part("GET /gmail/v1/users/me/profile")), "application/json"),
        (envelope(part("GET /gmail/v1/users/me/profile")), "multipart/mixed"),
        (envelope(part("GET /gmail/v1/users/me/profile")), "multipart/mixed; boundary=other"),
    ],
)
def test_a_malformed_envelope_is_rejected_as_a_whole(user, body, content_type):
    response = send(user, body, content_type)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith("Failed to parse batch request")


@given(st.binary(max_size=400))
def test_arbitrary_bytes_give_calls_or_an_error(noise):
    with suppress(GmailError):
        assert batch.parse_batch(b"--b\r\n" + noise + b"\r\n--b--", "b")
