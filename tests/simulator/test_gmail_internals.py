"""Pure functions of the Gmail simulation: partial responses, IDs, search syntax, meters, tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailsim.gmail import field_mask, quota
from mailsim.gmail.errors import GmailError
from mailsim.gmail.ids import is_message_id, make_ids
from mailsim.gmail.methods import METHODS
from mailsim.gmail.quota import QuotaMeter
from mailsim.gmail.response_schema import SCHEMA
from mailsim.gmail.search_matching import compile_search
from mailsim.gmail.search_query import AllOfTerms, AnyOfTerms, NotTerm, OperatorTerm, PhraseTerm, parse_search
from simulator import conformance_google

LISTING = {
    "messages": [{"id": "1", "threadId": "2"}, {"id": "3", "threadId": "4"}],
    "nextPageToken": "9",
    "resultSizeEstimate": 2,
}
MESSAGE = {
    "id": "1",
    "payload": {
        "headers": [{"name": "To", "value": "x"}],
        "body": {"size": 0},
        "parts": [{"partId": "0", "body": {"size": 3, "data": "YWJj"}}],
    },
}


@pytest.mark.parametrize(
    "text, left",
    [
        ("nextPageToken", {"nextPageToken": "9"}),
        ("messages/id", {"messages": [{"id": "1"}, {"id": "3"}]}),
        (
            "messages(id),resultSizeEstimate",
            {"messages": [{"id": "1"}, {"id": "3"}], "resultSizeEstimate": 2},
        ),
        ("messages/id,messages/threadId", {"messages": LISTING["messages"]}),
        ("messages(id),messages", {"messages": LISTING["messages"]}),
        ("*", LISTING),
        (" messages ( id , threadId ) ", {"messages": LISTING["messages"]}),
    ],
)
def test_fields_select_the_named_properties(text, left):
    assert field_mask.apply_mask(field_mask.parse_mask(text, "ListMessagesResponse"), LISTING) == left


def test_fields_select_nested_parts():
    mask = field_mask.parse_mask("payload(headers/name,parts(body/size))", "Message")
    assert field_mask.apply_mask(mask, MESSAGE) == {
        "payload": {"headers": [{"name": "To"}], "parts": [{"body": {"size": 3}}]}
    }


@pytest.mark.parametrize(
    "text",
    ["nothing", "messages/nothing", "messages(id", "messages)", "a,,b", "/id", "messages/id/x", "id!", "("],
)
def test_unknown_fields_are_rejected(text):
    with pytest.raises(GmailError) as raised:
        field_mask.parse_mask(text, "ListMessagesResponse")
    assert raised.value.body.code == 400
    assert "Cannot find matching fields" in str(raised.value.body.details)


@given(st.text(alphabet="messagid()/,* ", max_size=30))
def test_any_fields_text_is_a_mask_or_an_error(text):
    try:
        mask = field_mask.parse_mask(text, "ListMessagesResponse")
    except GmailError:
        return
    left = field_mask.apply_mask(mask, LISTING)
    assert field_mask.apply_mask(mask, left) == left


START_MS = 1_772_442_000_000


def make_mailbox_ids(key, initial_count, count=30_000_000):
    """Make the IDs of a mailbox that gets three messages in every millisecond."""
    return make_ids(key, initial_count, lambda number: START_MS + number // 3, lambda: count)


@given(st.integers(0, 2**64 - 1), st.integers(0, 5_000_000), st.integers(0, 20_000_000))
def test_ids_are_reversible(key, initial_count, number):
    ids = make_mailbox_ids(key, initial_count, number + 1)
    assert is_message_id(ids.to_message_id(number))
    assert len(ids.to_message_id(number)) == 16
    assert ids.to_number(ids.to_message_id(number)) == number
    assert ids.to_draft_key(ids.to_draft_id(number)) == number
    assert ids.from_page_token(ids.to_page_token(number)) == number
    assert ids.to_sequence(ids.to_history_id(number)) == number
    assert ids.to_history_id(number) < ids.to_history_id(number + 1)
    assert ids.to_initial_history_id(max(0, initial_count - 1)) < ids.to_history_id(0)


@given(st.integers(0, 2**64 - 1), st.integers(0, 20_000_000))
def test_message_ids_sort_by_time_as_in_gmail(key, number):
    """Public dumps of Gmail: the ID shifted right by 20 bits is the time of arrival in milliseconds.

    Google documents only that it is immutable:
    "REST Resource: users.messages", https://developers.google.com/workspace/gmail/api/reference/rest/v1/users.messages
    """
    ids = make_mailbox_ids(key, 0)
    assert int(ids.to_message_id(number), 16) >> 20 == START_MS + number // 3
    assert ids.to_message_id(number) < ids.to_message_id(number + 3)
    assert make_mailbox_ids(key ^ 1, 0).to_message_id(number) != ids.to_message_id(number)
    assert ids.to_number(f"{int(ids.to_message_id(number), 16) + (1 << 20):x}") == -1


@given(st.integers(0, 2**64 - 1), st.integers(1, 5_000_000), st.integers(0, 5_000_000))
def test_history_ids_of_initial_messages_are_reversible(key, initial_count, number):
    ids, number = make_mailbox_ids(key, initial_count), number % initial_count
    history_id = ids.to_initial_history_id(number)
    assert history_id < ids.to_initial_history_id(number + 1)
    assert ids.to_sequence(history_id) == number - initial_count + 1
    assert ids.to_sequence(ids.to_initial_history_id(number + 1) - 1) == number - initial_count + 1
    assert ids.to_sequence(ids.to_initial_history_id(0) - 1) < -initial_count


@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, 10**9),
    st.integers(0, 40),
    st.integers(0, 2**45),
    st.integers(0),
)
def test_attachment_ids_are_valid_only_in_their_mailbox(key, number, part, created_ms, nonce):
    ids, other = make_mailbox_ids(key, 10), make_mailbox_ids(key ^ 1, 10)
    text = ids.make_attachment_id(number, part, created_ms, nonce)
    assert text != ids.make_attachment_id(number, part, created_ms, nonce + 1)
    assert ids.parse_attachment_id(text) == (number, part, created_ms)
    assert other.parse_attachment_id(text) is None
    assert ids.parse_attachment_id(text[:40]) is None


@pytest.mark.parametrize(
    "text, term",
    [
        ("hello", PhraseTerm("hello")),
        (
            "from:amy subject:dinner",
            AllOfTerms((OperatorTerm("from", "amy"), OperatorTerm("subject", "dinner"))),
        ),
        ("a OR b c", AllOfTerms((AnyOfTerms((PhraseTerm("a"), PhraseTerm("b"))), PhraseTerm("c")))),
        ("{a b}", AnyOfTerms((PhraseTerm("a"), PhraseTerm("b")))),
        ("-in:spam", NotTerm(OperatorTerm("in", "spam"))),
        ('"two words"', PhraseTerm("two words")),
        ("from:(amy bob)", AllOfTerms((OperatorTerm("from", "amy"), OperatorTerm("from", "bob")))),
        ('subject:"two words"', OperatorTerm("subject", "two words")),
        ("http://example.org/x", PhraseTerm("http://example.org/x")),
        ("rfc822msgid:<a@b>", OperatorTerm("rfc822msgid", "<a@b>")),
        ("from: amy", OperatorTerm("from", "amy")),
        (
            "from: amy rfc822msgid: is:unread",  # the discovery document's example of a filter
            AllOfTerms((OperatorTerm("from", "amy"), OperatorTerm("is", "unread"))),
        ),
    ],
)
def test_searches_are_parsed_as_in_gmail(text, term):
    """Follows "Refine searches in Gmail", https://support.google.com/mail/answer/7190"""
    assert parse_search(text) == term


@given(st.text(alphabet='abOR :"(){}-|<>@/ \n', max_size=60))
def test_any_text_is_a_valid_search(text):
    search = compile_search(text, 1_000_000.0, {})
    assert search.may_match_labels(frozenset({"INBOX"})) in {True, False}


def test_dates_are_midnight_in_pacific_time():
    search = compile_search("after:2026/01/02 before:2026-01-03", 0.0, {})
    assert search.from_ms == 1767340800_000  # 2026-01-02T08:00:00Z
    assert search.to_ms == 1767340800_000 + 86_400_000
    assert search.matches is None


def test_the_meter_resets_after_a_minute():
    meter = QuotaMeter()
    meter.spend(100, 0)
    meter.spend(50, 30_000)
    assert meter.count_spent_units(59_000) == 150
    assert meter.find_free_time(60, 200, 59_000) <= 60_100
    assert meter.count_spent_units(60_100) == 50
    assert meter.count_spent_units(90_200) == 0


def test_the_method_table_agrees_with_the_discovery_document():
    known = conformance_google.list_methods()
    for method in METHODS:
        theirs = known[method.id]
        assert (method.http, f"gmail/v1/users/{{userId}}/{'/'.join(method.path)}") == (
            theirs["httpMethod"],
            theirs["path"],
        )
        assert method.scopes == set(theirs["scopes"]), method.id
        own = {name for name, value in theirs.get("parameters", {}).items() if value["location"] == "query"}
        assert set(method.parameters) == own, method.id
        assert method.response_type == theirs.get("response", {}).get("$ref", ""), method.id
        body = theirs.get("request", {}).get("$ref")
        properties = conformance_google.load_document()["schemas"][body]["properties"] if body else {}
        assert set(method.properties) == set(properties), method.id
        assert method.uploads == ("mediaUpload" in theirs), method.id
        for name, parameter in method.parameters.items():
            assert set(parameter.choices) == set(theirs["parameters"][name].get("enum", ())), (
                method.id,
                name,
            )
            assert (parameter.kind == "texts") == theirs["parameters"][name].get("repeated", False)


def test_every_method_of_the_discovery_document_exists():
    assert {method.id for method in METHODS} == set(conformance_google.list_methods())


def test_the_schema_agrees_with_the_discovery_document():
    directory = conformance_google.load_document("admin.directory_v1")["schemas"]
    schemas = directory | conformance_google.load_document()["schemas"]
    for name, properties in SCHEMA.items():
        theirs = {
            key: value.get("$ref", "") or value.get("items", {}).get("$ref", "")
            for key, value in schemas[name]["properties"].items()
        }
        assert properties == theirs, name


@pytest.mark.parametrize(
    "method, old, new",
    [
        ("users.messages.get", 5, 20),
        ("users.messages.attachments.get", 5, 20),
        ("users.threads.get", 10, 40),
        ("users.history.list", 2, 2),
        ("users.watch", 100, 100),
        ("users.messages.list", 5, 5),
    ],
)
def test_costs_match_googles_quota_page(method, old, new):
    assert (quota.OLD_COSTS[method], quota.NEW_COSTS[method]) == (old, new)


def test_every_method_has_a_cost():
    assert set(quota.OLD_COSTS) == set(quota.NEW_COSTS) == {method.id for method in METHODS}
