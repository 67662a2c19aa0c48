"""Threads are a pure function of message numbers, stay within a span, and read like conversations."""

import email
import email.policy
from collections import Counter
from datetime import UTC, datetime

from mailsim import samples

DAY = datetime(2024, 5, 1, tzinfo=UTC)
BOX = {"seed": 3, "address": "owner@example.org"}
NUMBERS = range(1500)


def make_spec(number: int, mix: dict[str, float] | None = None) -> samples.MessageSpec:
    return samples.plan_message(**BOX, number=number, date=DAY, mix=mix)


def parent(number: int) -> int | None:
    return samples.find_reply_parent(3, "owner@example.org", number)


def test_a_reply_answers_an_earlier_personal_message_in_its_span():
    answers = [number for number in NUMBERS if parent(number) is not None]
    assert len(answers) > 200
    for number in answers:
        earlier = parent(number)
        assert earlier is not None
        assert earlier < number
        assert earlier // samples.THREAD_SPAN == number // samples.THREAD_SPAN
        assert make_spec(number).in_reply_to == make_spec(earlier).message_id
        assert make_spec(earlier).kind in {"plain", "html", "reply", "sent", "forward"}


def test_references_list_the_thread_from_its_first_message_to_the_parent():
    for number in NUMBERS:
        line = [number]
        while (earlier := parent(line[-1])) is not None:
            line.append(earlier)
        assert make_spec(number).references == tuple(make_spec(one).message_id for one in reversed(line[1:]))
        assert samples.find_thread_start(3, "owner@example.org", number) == line[-1]


def test_a_thread_keeps_its_subject_and_language():
    for number in NUMBERS:
        first = samples.find_thread_start(3, "owner@example.org", number)
        if first != number:
            assert make_spec(number).title == f"Re: {make_spec(first).title}"
            assert make_spec(number).language == make_spec(first).language


def test_every_message_of_a_thread_has_the_same_members():
    for number in range(320):
        members = samples.list_thread_numbers(3, "owner@example.org", number)
        assert number in members
        assert {samples.list_thread_numbers(3, "owner@example.org", one) for one in members} == {members}


def test_a_reply_quotes_the_message_it_answers():
    number = next(n for n in NUMBERS if make_spec(n).kind == "reply" and make_spec(n).variant == "text")
    earlier = parent(number)
    assert earlier is not None
    answered = samples.write_message(make_spec(earlier, {"plain": 1}))
    text = email.message_from_bytes(
        samples.write_message(make_spec(number)), policy=email.policy.default
    ).get_content()
    quoted = [line[2:].split(".")[0] for line in text.splitlines() if line.startswith("> ")]
    first = email.message_from_bytes(answered, policy=email.policy.default).get_content()
    assert quoted[0] in first


def test_ordinary_mail_is_mostly_personal_messages_and_newsletters():
    found = Counter(make_spec(number).kind for number in range(3000))
    talk = sum(found[kind] for kind in ("plain", "html", "reply", "sent", "newsletter"))
    assert 0.75 < talk / 3000 < 0.95
    assert found["invoice"] > 20
    assert found["big"] == 0


def test_a_mix_contains_only_its_kinds():
    found = Counter(
        make_spec(number, {"invoice": 1, "newsletter": 3, "bounce": 0}).kind for number in range(400)
    )
    assert set(found) == {"invoice", "newsletter"}
    assert found["newsletter"] > 2 * found["invoice"]


def test_sent_messages_are_from_the_owner():
    sent = [make_spec(number) for number in NUMBERS if make_spec(number).kind == "sent"]
    assert sent
    assert {one.sender[1] for one in sent} == {"owner@example.org"}
    assert all(b"\r\nReceived:" not in samples.write_message(one) for one in sent[:20])
