"""Writer of messages with valid but unusual headers: encoded words, folding, groups, file names.

Invalid headers are in `malformed_messages`.
"""

from collections.abc import Callable

from mailsim.samples import personal_messages
from mailsim.samples.headers import encode_b_words, encode_q_words, format_header_block, replace_header
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import EncodedPart, make_attachment, make_boundary, make_multipart
from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom

_LONG = (
    "Größenübersicht für die zweite Baustufe, überarbeitet nach der Besprechung am Donnerstag, mit Änderungen"
)


def write_unusual_headers(spec: MessageSpec) -> bytes:
    head = format_header_block(spec)
    part = personal_messages.make_text_part(spec, 500)
    if spec.variant in _FILE_NAMES:
        part = make_multipart(
            "mixed", (part, _make_file_part(spec, _FILE_NAMES[spec.variant])), make_boundary(spec.seed)
        )
    else:
        head = _HEADER_CHANGES[spec.variant](spec, head)
    return f"{head}{part.head}\r\n".encode() + part.body


def _make_file_part(spec: MessageSpec, disposition: str) -> EncodedPart:
    data = make_attachment(
        "x", "application/octet-stream", SeededRandom(spec.seed, 24).digits(19).encode()
    ).body
    head = f"Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n{disposition}\r\n"
    return EncodedPart(head, data)


_FILE_NAMES = {
    "rfc2231": "Content-Disposition: attachment; filename*=iso-8859-1'de'Gr%F6%DFe.txt",
    "rfc2231-continued": (
        "Content-Disposition: attachment;\r\n filename*0*=utf-8''Gr%C3%B6%C3%9Fen%20f%C3%BCr;\r\n"
        ' filename*1*=%20die%20zweite%20Baustufe;\r\n filename*2=".txt"'
    ),
    "rfc2231-both": (
        "Content-Disposition: attachment; filename=Groesse.txt;\r\n filename*=utf-8''Gr%C3%B6%C3%9Fe.txt"
    ),
    "encoded-word-filename": 'Content-Disposition: attachment;\r\n filename="=?utf-8?Q?Ma=C3=9Fe.txt?="',
    "bare-filename": "Content-Disposition: attachment; filename=report-2024.txt",
    "semicolon-filename": 'Content-Disposition: attachment; filename="a;b \\"c\\".txt"',
}


def _replace_subject(head: str, line: str) -> str:
    return replace_header(head, "Subject", f"Subject: {line}\r\n")


def _use_address_groups(spec: MessageSpec, head: str) -> str:
    line = f"To: Team: {spec.to[0][1]}, Ann <ann@example.com>, bob@example.com;,\r\n carl@example.net\r\n"
    return replace_header(head, "To", f"{line}Cc: undisclosed-recipients:;\r\n")


def _quote_names(spec: MessageSpec, head: str) -> str:
    name = PHRASES["en"].names[spec.seed % 7].split()
    head = replace_header(head, "From", f'From: "{name[1]}, {name[0]} (Sales)" <{spec.sender[1]}>\r\n')
    line = f'To: "Doe, Jane" <{spec.to[0][1]}>, "\\"Ace\\" Smith, Jr." <ace@example.com>\r\n'
    return replace_header(head, "To", line)


def _add_recipients(spec: MessageSpec, head: str) -> str:
    people = ",\r\n ".join(f'"Person {number}" <person{number}@example.com>' for number in range(200))
    return replace_header(head, "To", f"To: {spec.to[0][1]},\r\n {people}\r\n")


def _repeat_headers(_order: MessageSpec, head: str) -> str:
    hops = "".join(
        f"Received: from relay{hop}.example.com (relay{hop}.example.com [198.51.100.{hop + 1}])\r\n"
        f"\tby relay{hop + 1}.example.com with ESMTP id {hop:06d}; Mon, 1 Jan 2024 06:00:0{hop} +0000\r\n"
        for hop in range(6)
    )
    return f"{hops}{head}X-Tag: one\r\nX-Tag: two\r\nx-tag: three\r\nComments: first\r\nComments: second\r\n"


def _fold_headers(_: MessageSpec, head: str) -> str:
    subject = "A subject that\r\n\tis folded with tabs\r\n  and with more than one space\r\n before it ends"
    head = _replace_subject(head, subject)
    return f"{head}X-Long: {'a' * 60}\r\n {'b' * 70}\r\n\t{'c' * 900}\r\nX-Empty:\r\nX-Blank: \r\n"


def _send_on_behalf(spec: MessageSpec, head: str) -> str:
    return (
        f'{head}Sender: "Front Desk" <desk@example.com>\r\n'
        'Reply-To: answers@example.com, "Doe, Jane" <jane@example.com>\r\n'
        f"Disposition-Notification-To: {spec.sender[1]}\r\nX-Priority: 1 (Highest)\r\nImportance: High\r\n"
    )


def _add_resent_headers(spec: MessageSpec, head: str) -> str:
    return (
        "Resent-From: desk@example.com\r\nResent-To: archive@example.com\r\n"
        "Resent-Date: Mon, 1 Jan 2024 06:00:00 +0000\r\n"
        f"Resent-Message-ID: <resent-{spec.seed}@example.com>\r\n{head}"
    )


_HEADER_CHANGES: dict[str, Callable[[MessageSpec, str], str]] = {
    "words-b": lambda _, head: _replace_subject(head, encode_b_words(_LONG)),
    "words-q": lambda _, head: _replace_subject(head, encode_q_words(_LONG)),
    "words-mixed": lambda _, head: _replace_subject(
        head,
        "Re: =?iso-8859-1?Q?Gr=F6=DFe?= and =?utf-8?B?xZNzdGVycmVpY2g=?=\r\n =?koi8-r?B?8NLJ18XU?= end",
    ),
    "words-language": lambda _, head: _replace_subject(head, "=?utf-8*de?Q?Gr=C3=B6=C3=9Fe?="),
    "folded": _fold_headers,
    "repeated": _repeat_headers,
    "groups": _use_address_groups,
    "quoted-names": _quote_names,
    "comments": lambda spec, head: replace_header(
        head, "From", f"From: Pete(A nice \\) chap) <{spec.sender[1]}(his account)>\r\n"
    ),
    "many-recipients": _add_recipients,
    "old-date": lambda _, head: replace_header(head, "Date", "Date: Mon, 1 Jan 24 06:00 EST\r\n"),
    "date-comment": lambda _, head: replace_header(
        head, "Date", "Date: Mon, 1 Jan 2024 07:00:00 +0100 (CET)\r\n"
    ),
    "no-subject": lambda _, head: replace_header(head, "Subject", ""),
    "empty-subject": lambda _, head: _replace_subject(head, ""),
    "on-behalf": _send_on_behalf,
    "resent": _add_resent_headers,
    "bcc-only": lambda _, head: replace_header(head, "To", ""),
    "utf8-address": lambda _, head: replace_header(head, "From", "From: Jürgen <jürgen@example.org>\r\n"),
}
