"""What headers say: people, dates, threads, and whether a machine or a list wrote."""

from datetime import UTC, datetime

import pytest

from mailsim import mime as referee
from mailsim import samples
from mailsim.samples import MessageSpec, message_kinds
from postroom.mime import parse, parse_header_pairs


def people(line):
    return [(each.name, each.address) for each in parse(f"To: {line}\r\n\r\n".encode()).head.to]


@pytest.mark.parametrize(
    "line, found",
    [
        ('"Doe, Jane" <jane@example.org>', [("Doe, Jane", "jane@example.org")]),
        ("Doe, Jane <j@example.org>, b@example.org", [("Doe, Jane", "j@example.org"), ("", "b@example.org")]),
        ("A <a@example.org> B <b@example.org>", [("A", "a@example.org"), ("B", "b@example.org")]),
        ("=?utf-8?q?Doe=2C_J=C3=A4ne?= <jane@example.org>", [("Doe, Jäne", "jane@example.org")]),
        ('"=?utf-8?b?SsO8cmdlbg==?=" <j@example.org>', [("Jürgen", "j@example.org")]),
        ("Team: Ann <ann@example.org>, bob@example.org;, c@example.org",
         [("Ann", "ann@example.org"), ("", "bob@example.org"), ("", "c@example.org")]),
        ("undisclosed-recipients:;", []),
        ("jane@example.org (Jane Doe)", [("Jane Doe", "jane@example.org")]),
        (r'"Joe \"Ace\" Doe" <joe@example.org>', [('Joe "Ace" Doe', "joe@example.org")]),
        ("<@relay.example,@b.example:joe@example.org>", [("", "joe@example.org")]),
        ("Jane jane@example.org", [("Jane", "jane@example.org")]),
        ("jane@example.org; bob@example.org", [("", "jane@example.org"), ("", "bob@example.org")]),
        ("jane", [("jane", "")]),
        ('"jane <jane@example.org>', [("jane", "jane@example.org")]),
        ("", []),
    ],
)  # fmt: skip
def test_address_lists(line, found):
    assert people(line) == found


@pytest.mark.parametrize(
    "line, moment",
    [
        ("Wed, 8 Oct 2025 19:21:05 +0200", datetime(2025, 10, 8, 17, 21, 5, tzinfo=UTC)),
        ("8 Oct 2025 19:21:05 -0000", datetime(2025, 10, 8, 19, 21, 5, tzinfo=UTC)),
        ("Wed, 8 Oct 2025 19:21:05 GMT (a comment)", datetime(2025, 10, 8, 19, 21, 5, tzinfo=UTC)),
        ("Fri, 31 Dec 9999 23:59:00 -2359", None),
        ("31 Feb 2025 00:00:00 +0000", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_dates_are_in_utc_or_absent(line, moment):
    assert parse(f"Date: {line}\n\n".encode()).head.sent_at == moment


def test_ids_of_messages_keep_their_brackets_and_references_their_order():
    head = parse(
        b"Message-ID:\r\n <c@example.org>\r\nIn-Reply-To: your mail <b@example.org>\r\n"
        b"References: <a@example.org>\r\n\t<b@example.org>\r\n\r\n"
    ).head
    assert head.internet_message_id == "<c@example.org>"
    assert head.in_reply_to == "<b@example.org>"
    assert head.references == ("<a@example.org>", "<b@example.org>")


def test_headers_keep_their_order_and_repetitions_and_the_first_counts():
    message = parse(
        b"X-A: 1\nSubject: =?utf-8?q?first_=E2=82=AC?=\nx-a: 2\nSubject: second\n"
        b"broken line\nTo : a@example.org\n\n"
    )
    assert message.head.headers == (
        ("X-A", "1"), ("Subject", "first €"), ("x-a", "2"), ("Subject", "second"), ("To", "a@example.org"),
    )  # fmt: skip
    assert message.head.subject == "first €"
    assert [each.address for each in message.head.to] == ["a@example.org"]
    assert message.defects == ("header",)


@pytest.mark.parametrize(
    "line, newsletter, automated",
    [
        ("List-Unsubscribe: <https://news.example/u>", True, False),
        ("List-Id: <news.example>", True, False),
        ("Precedence: bulk", True, False),
        ("Auto-Submitted: auto-replied", False, True),
        ("Auto-Submitted: no", False, False),
        ("Auto-Submitted: auto-generated\nPrecedence: bulk", False, True),
        ("X-Auto-Response-Suppress: All", False, True),
        ("Return-Path: <>", False, True),
        ("Content-Type: multipart/report; report-type=delivery-status", False, True),
        ("From: Shop <no-reply@shop.example>", False, True),
        ("From: <shop.noreply@shop.example>", False, True),
        ("From: MAILER-DAEMON@mx.example", False, True),
        ("From: Norbert Reply <norbert.reply@example.org>", False, False),
    ],
)
def test_newsletters_and_automated_mail_are_recognized(line, newsletter, automated):
    head = parse(f"{line}\n\n".encode()).head
    assert (head.is_newsletter, head.is_automated) == (newsletter, automated)


@pytest.mark.parametrize("kind", ["plain", "newsletter", "auto-reply", "bounce", "headers", "invoice"])
def test_header_pairs_yield_the_same_head_as_the_whole_message(kind):
    for seed, variant in enumerate(message_kinds.list_variants(kind)):
        raw = samples.write_message(MessageSpec(seed=seed, kind=kind, variant=variant))
        whole = parse(raw).head
        given = parse_header_pairs(
            (name, referee.decode_words(value)) for name, value in referee.parse_headers(raw)
        )
        assert given == whole
