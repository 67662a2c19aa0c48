"""Wire formats become domain values. Pure: no simulator."""

import base64
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.errors import (
    ApplicationRejected,
    CursorExpired,
    InvalidGrant,
    NotFound,
    PermanentError,
    ProviderServerError,
    RateLimited,
    TokenRejected,
    TransientError,
    UnsupportedByProvider,
)
from postroom.model import Importance, MessageChange, ObservedState, Presence
from postroom.providers import message_parsing
from postroom.providers.gmail import batch_format
from postroom.providers.gmail import message_parsing as gmail_parsing
from postroom.providers.gmail import wire as gmail_wire
from postroom.providers.graph import message_parsing as graph_parsing
from postroom.providers.graph import wire as graph_wire
from postroom.providers.transport import HttpResponse

PRESENT = Presence.PRESENT


def labels(*, key="m", added=(), removed=(), version="1"):
    return MessageChange(key, PRESENT, version, ObservedState(), frozenset(added), frozenset(removed))


@given(
    st.lists(st.tuples(st.booleans(), st.sets(st.sampled_from("ABCD"), min_size=1)), min_size=1, max_size=12),
    st.sets(st.sampled_from("ABCD")),
)
def test_combined_label_changes_have_the_same_result_as_single_ones(steps, before):
    changes = [
        labels(added=names if on else (), removed=() if on else names, version=f"{number:02}")
        for number, (on, names) in enumerate(steps)
    ]
    after = set(before)
    for change in changes:
        after = (after | change.labels_added) - change.labels_removed
    [combined] = message_parsing.combine_changes(changes)
    assert (before | combined.labels_added) - combined.labels_removed == after
    assert not combined.labels_added & combined.labels_removed
    assert combined.version == f"{len(steps) - 1:02}"


def test_of_several_changes_of_a_message_the_last_presence_counts_and_states_are_merged():
    gone = MessageChange("m", Presence.DELETED, "3")
    changes = [
        MessageChange("m", PRESENT, "1", ObservedState(thread="t", is_read=False)),
        MessageChange("other", PRESENT, "2"),
        MessageChange("m", PRESENT, "2", ObservedState(is_read=True)),
    ]
    other, message = message_parsing.combine_changes(changes)
    assert (other.key, message.state) == ("other", ObservedState(thread="t", is_read=True))
    assert message_parsing.combine_changes([*changes, gone])[-1] == gone
    back = MessageChange("m", PRESENT, "4", ObservedState(folder="f"))
    assert message_parsing.combine_changes([*changes, gone, back])[-1] == back


def history(**record):
    return gmail_parsing.to_changes([msgspec.convert({"id": "7", **record}, gmail_wire.GmailHistoryRecord)])


def test_labels_in_a_history_record_set_the_state():
    touched = [{"message": {"id": "m", "threadId": "t"}, "labelIds": ["UNREAD", "STARRED", "Label_1"]}]
    [added] = history(labelsAdded=touched)
    assert added.state == ObservedState(is_read=False, is_flagged=True)
    assert added.labels_added == {"UNREAD", "STARRED", "Label_1"}
    [removed] = history(labelsRemoved=touched)
    assert removed.state == ObservedState(is_read=True, is_flagged=False)
    [new] = history(messagesAdded=touched)
    assert (new.presence, new.state.thread, new.labels_added) == (PRESENT, "t", frozenset())
    [gone] = history(messagesDeleted=touched, labelsAdded=touched)
    assert gone.presence is Presence.DELETED
    assert {each.version for each in (added, removed, new, gone)} == {"00000000000000000007"}


def test_versions_increase_as_text():
    numbers = ["9", "10", "99", "100", "18446744073709551615"]
    assert sorted(numbers, key=gmail_parsing.to_version) == numbers
    stamps = [("2026-01-05T10:00:00Z", 254), ("2026-01-05T10:00:00Z", 255), ("2026-01-05T10:00:01Z", 3)]
    versions = [
        graph_parsing.to_version(
            graph_wire.GraphMessage(
                "m",
                last_modified_date_time=moment,
                change_key=base64.b64encode(counter.to_bytes(30)).decode(),
            )
        )
        for moment, counter in stamps
    ]
    assert versions == sorted(set(versions))
    assert graph_parsing.to_version(graph_wire.GraphMessage("m", change_key="CQAAAA==")) == ""
    assert graph_parsing.to_version(
        graph_wire.GraphMessage("m", last_modified_date_time="2026-01-05T10:00:00Z", change_key="?")
    )


@pytest.mark.parametrize("size", [*range(5), *range(786431, 786434)])  # the larger ones come in pieces
@pytest.mark.parametrize("shape", ["padded", "bare", "escaped"])
def test_raw_messages_are_decoded_whatever_their_padding(size, shape):
    content = (b"\xfb\xff\xfe\xf0\x07" * (size // 5 + 1))[:size]
    text = base64.urlsafe_b64encode(content).decode()
    if shape == "bare":
        text = text.rstrip("=")
    encoded = msgspec.json.encode(text).replace(b"=", b"\\u003d" if shape == "escaped" else b"=")
    raw = b'{"id":"m","historyId":"1","internalDate":"1","raw":' + encoded + b"}"
    assert gmail_parsing.decode_raw(msgspec.json.decode(raw, type=gmail_wire.GmailMessage)) == content


def test_invalid_base64_is_a_transient_error():
    message = gmail_wire.GmailMessage("m", "1", "1", raw=msgspec.Raw(b'"A"'))
    with pytest.raises(TransientError):
        gmail_parsing.decode_raw(message)


def parted(body: bytes, content_type="multipart/mixed; boundary=batch_x") -> HttpResponse:
    return HttpResponse(200, {"content-type": content_type, "date": "Mon, 05 Jan 2026 10:00:00 GMT"}, body)


def part(place: int, status: int, body: bytes) -> bytes:
    return (
        b"--batch_x\r\nContent-Type: application/http\r\nContent-ID: <response-%d>\r\n\r\n"
        b"HTTP/1.1 %d Whatever\r\nContent-Type: application/json\r\nRetry-After: 3\r\n\r\n%s\r\n"
    ) % (place, status, body)


def test_batch_parts_are_matched_by_id_and_truncated_parts_are_missing():
    whole = part(1, 200, b'{"one":1}') + part(0, 429, b"{}") + b"--batch_x--\r\n"
    found = batch_format.decode_batch(parted(whole))
    assert {place: answer.status for place, answer in found.items()} == {0: 429, 1: 200}
    assert found[1].read(dict) == {"one": 1}
    assert found[0].headers["retry-after"] == "3"
    assert found[0].headers["date"].startswith("Mon, 05 Jan")
    for end in range(len(whole)):
        cut = batch_format.decode_batch(parted(whole[:end]))
        assert all(found[place] == answer for place, answer in cut.items())
    assert batch_format.decode_batch(parted(whole, "text/html")) == {}
    assert batch_format.decode_batch(parted(b"nothing of this")) == {}


def test_a_large_message_of_a_batch_is_not_copied_repeatedly():
    attached = b"Content-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    raw = attached + base64.encodebytes(b"%PDF-" * 800_000)
    message = {
        "id": "m",
        "historyId": "1",
        "internalDate": "1",
        "raw": base64.urlsafe_b64encode(raw).decode(),
    }
    whole = part(0, 200, msgspec.json.encode(message)) + b"--batch_x--\r\n"
    tracemalloc.start()
    try:
        answer = batch_format.decode_batch(parted(whole))[0]
        content = gmail_parsing.to_fetched(answer.read(gmail_wire.GmailMessage)).content
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert content.raw == raw
    assert [len(each.content) for each in content.attachments] == [4_000_000]
    assert most < 3.4 * len(raw), "as it came, which is larger by a third; its bytes; its attachment"


def test_a_batch_contains_paths_only_and_its_lines_end_in_crlf():
    lines = batch_format.encode_batch(["/gmail/v1/users/me/messages/a?format=raw", "/b"]).split(b"\r\n")
    assert b"GET /gmail/v1/users/me/messages/a?format=raw HTTP/1.1" in lines
    assert not any(b"\n" in line for line in lines)


def refused(wire, status, **error):
    return wire.to_error(HttpResponse(status, {}, msgspec.json.encode({"error": error})))


@pytest.mark.parametrize(
    "status, reason, message, expected",
    [
        (404, "notFound", "Requested entity was not found.", NotFound),
        (400, "invalidArgument", "Invalid id value", NotFound),
        (400, "invalidArgument", "Invalid pageToken", CursorExpired),
        (403, "userRateLimitExceeded", "User Rate Limit Exceeded", RateLimited),
        (429, "rateLimitExceeded", "Too many concurrent requests for user", RateLimited),
        (403, "forbidden", "Metadata scope does not support 'q' parameter", UnsupportedByProvider),
        (403, "forbidden", "Metadata scope doesn't allow format RAW", InvalidGrant),
        (403, "insufficientPermissions", "Request had insufficient authentication scopes.", InvalidGrant),
        (403, "accessNotConfigured", "The API is not enabled", ApplicationRejected),
        (403, "domainPolicy", "The domain administrators have disabled Gmail apps.", PermanentError),
        (401, "authError", "Invalid Credentials", TokenRejected),
        (503, "backendError", "Backend Error", ProviderServerError),
    ],
)
def test_gmail_errors_map_to_who_must_act(status, reason, message, expected):
    error = refused(gmail_wire, status, code=status, message=message, errors=[{"reason": reason}])
    assert type(error) is expected


def test_a_project_limit_concerns_all_mailboxes_and_a_user_limit_only_one():
    text = "Quota exceeded for quota metric 'Queries' and limit '{}' of service 'gmail.googleapis.com'."
    for limit, all_mailboxes in (("Queries per minute", True), ("Queries per minute per user", False)):
        error = refused(gmail_wire, 429, message=text.format(limit), errors=[{"reason": "rateLimitExceeded"}])
        assert isinstance(error, RateLimited)
        assert error.all_mailboxes is all_mailboxes


def test_the_retry_time_in_gmails_message_is_relative_to_gmails_clock():
    answer = HttpResponse(
        429,
        {"date": "Mon, 05 Jan 2026 10:00:00 GMT"},
        b'{"error":{"message":"User-rate limit exceeded.  Retry after 2026-01-05T10:00:12.500Z"}}',
    )
    assert gmail_wire.to_error(answer).retry_after == 12.5


@pytest.mark.parametrize(
    "status, code, expected",
    [
        (410, "SyncStateNotFound", CursorExpired),
        (400, "resyncRequired", CursorExpired),
        (404, "ErrorItemNotFound", NotFound),
        (400, "ErrorInvalidIdMalformed", NotFound),
        (405, "ErrorInvalidOperation", UnsupportedByProvider),
        (429, "ApplicationThrottled", RateLimited),
        (401, "InvalidAuthenticationToken", TokenRejected),
        (504, "UnknownError", ProviderServerError),
    ],
)
def test_graph_errors_map_to_who_must_act(status, code, expected):
    assert type(refused(graph_wire, status, code=code, message="")) is expected


def test_a_partial_update_leaves_absent_properties_unknown():
    changes = msgspec.json.decode(b'{"id":"m","isRead":true}', type=graph_wire.GraphMessage)
    assert graph_parsing.to_change(changes) == MessageChange("m", PRESENT, "", ObservedState(is_read=True))
    removed = msgspec.json.decode(b'{"id":"m","@removed":{"reason":"deleted"}}', type=graph_wire.GraphMessage)
    assert graph_parsing.to_change(removed) == MessageChange("m", Presence.LEFT)
    odd = graph_wire.GraphMessage("m", importance="Urgent", flag=graph_wire.GraphFlag("complete"))
    assert graph_parsing.to_state(odd) == ObservedState(is_flagged=False)
    assert (
        graph_parsing.to_state(graph_wire.GraphMessage("m", importance="High")).importance is Importance.HIGH
    )
