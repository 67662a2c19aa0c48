"""Writer of messages that violate the mail standards in the ways real mail does.

A client must neither crash on them nor lose them.
"""

from collections.abc import Callable

from mailsim.samples import personal_messages
from mailsim.samples.headers import format_header_block, replace_header
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import (
    EncodedPart,
    embed_message,
    encode_base64_lines,
    make_attachment,
    make_boundary,
    make_multipart,
)

_UMLAUTS = "Größere Mengen für die Straße, 120 €\r\n"


def write_malformed(spec: MessageSpec) -> bytes:
    return _FAULTS[spec.variant](spec)


def _join_message(head: str, part: EncodedPart) -> bytes:
    return f"{head}{part.head}\r\n".encode() + part.body


def _make_body(spec: MessageSpec) -> EncodedPart:
    return personal_messages.make_text_part(spec, 500)


def _write_with_head(change: Callable[[str], str]) -> Callable[[MessageSpec], bytes]:
    return lambda spec: _join_message(change(format_header_block(spec)), _make_body(spec))


def _write_with_header(name: str, line: str) -> Callable[[MessageSpec], bytes]:
    return _write_with_head(lambda head: replace_header(head, name, line))


def _write_with_part(head: str, body: bytes) -> Callable[[MessageSpec], bytes]:
    return lambda spec: _join_message(format_header_block(spec), EncodedPart(head, body))


def _make_mixed_part(spec: MessageSpec) -> EncodedPart:
    file = make_attachment("figures.txt", "text/plain", f"{spec.seed}\r\n".encode() * 40)
    return make_multipart("mixed", (_make_body(spec), file), make_boundary(spec.seed))


def _omit_final_boundary(spec: MessageSpec) -> bytes:
    whole = _join_message(format_header_block(spec), _make_mixed_part(spec))
    return whole[: whole.rindex(b"--" + make_boundary(spec.seed).encode())]


def _cut_base64(spec: MessageSpec) -> bytes:
    whole = _join_message(format_header_block(spec), _make_mixed_part(spec))
    return whole[: whole.rindex(b"--" + make_boundary(spec.seed).encode()) - 31]


def _omit_boundary(spec: MessageSpec) -> bytes:
    return _join_message(
        format_header_block(spec),
        EncodedPart("Content-Type: multipart/mixed\r\n", _make_mixed_part(spec).body),
    )


def _nest_boundary_prefix(spec: MessageSpec) -> bytes:
    inner = make_multipart("alternative", (_make_body(spec), _make_body(spec)), "outer-inner")
    return _join_message(
        format_header_block(spec), make_multipart("mixed", (inner, _make_body(spec)), "outer")
    )


def _encode_multipart(spec: MessageSpec) -> bytes:
    part = _make_mixed_part(spec)
    return _join_message(
        format_header_block(spec),
        EncodedPart(f"{part.head}Content-Transfer-Encoding: base64\r\n", part.body),
    )


def _encode_embedded_message(spec: MessageSpec) -> bytes:
    embedded = embed_message(personal_messages.write_plain(spec), "message.eml")
    head = embedded.head.replace("7bit", "base64").replace("8bit", "base64")
    return _join_message(
        format_header_block(spec),
        make_multipart(
            "mixed", (EncodedPart(head, encode_base64_lines(embedded.body)),), make_boundary(spec.seed)
        ),
    )


def _write_with_filename(name: str) -> Callable[[MessageSpec], bytes]:
    def write(spec: MessageSpec) -> bytes:
        head = (
            "Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n"
            f'Content-Disposition: attachment; filename="{name}"\r\n'
        )
        return _join_message(
            format_header_block(spec),
            make_multipart(
                "mixed",
                (_make_body(spec), EncodedPart(head, encode_base64_lines(b"data"))),
                make_boundary(spec.seed),
            ),
        )

    return write


_TEXT = 'Content-Type: text/plain; charset="{}"\r\nContent-Transfer-Encoding: {}\r\n'

_FAULTS: dict[str, Callable[[MessageSpec], bytes]] = {
    "utf8-called-ascii": _write_with_part(_TEXT.format("us-ascii", "7bit"), _UMLAUTS.encode()),
    "utf8-called-latin1": _write_with_part(_TEXT.format("iso-8859-1", "8bit"), _UMLAUTS.encode()),
    "cp1252-called-utf8": _write_with_part(_TEXT.format("utf-8", "8bit"), _UMLAUTS.encode("cp1252")),
    "unknown-charset": _write_with_part(_TEXT.format("x-unknown-77", "8bit"), _UMLAUTS.encode()),
    "empty-charset": _write_with_part(_TEXT.format("", "8bit"), _UMLAUTS.encode()),
    "unknown-encoding": _write_with_part(_TEXT.format("utf-8", "x-strange"), b"Nothing special.\r\n"),
    "broken-base64": _write_with_part(
        _TEXT.format("utf-8", "base64"), b"R3LDvMOfZSBhd!!\r\nXMgS8O2bG4=Z\r\n"
    ),
    "broken-quoted-printable": _write_with_part(
        _TEXT.format("utf-8", "quoted-printable"), b"100=ZZ percent = more=\r\n=4\r\n"
    ),
    "content-type-garbage": _write_with_part(
        "Content-Type: text\r\nContent-Transfer-Encoding: 7bit\r\n", b"Plain after all.\r\n"
    ),
    "content-type-twice": _write_with_part(
        _TEXT.format("utf-8", "7bit") + "Content-Type: text/html\r\n", b"<b>Which one?</b>\r\n"
    ),
    "uuencoded": _write_with_part("", b"begin 644 a.txt\r\n%:&5L;&\\*\r\n`\r\nend\r\n"),
    "nul-bytes": _write_with_part(_TEXT.format("utf-8", "8bit"), b"Zero\x00byte\x00here\r\n"),
    "long-line": _write_with_part(_TEXT.format("utf-8", "7bit"), b"word " * 8000 + b"\r\n"),
    "no-final-boundary": _omit_final_boundary,
    "cut-in-base64": _cut_base64,
    "no-boundary": _omit_boundary,
    "boundary-prefix": _nest_boundary_prefix,
    "multipart-base64": _encode_multipart,
    "enclosed-base64": _encode_embedded_message,
    "bare-lf": lambda spec: personal_messages.write_html(spec).replace(b"\r\n", b"\n"),
    "bare-cr": lambda spec: _join_message(
        format_header_block(spec), EncodedPart(_TEXT.format("utf-8", "7bit"), b"one\rtwo\rthree\r\n")
    ),
    "no-message-id": _write_with_header("Message-ID", ""),
    "no-date": _write_with_header("Date", ""),
    "bad-date": _write_with_header("Date", "Date: Mon, 32 Foo 2024 25:61:61 +9999\r\n"),
    "no-from": _write_with_header("From", ""),
    "two-froms": _write_with_header("From", "From: first@example.com\r\nFrom: second@example.com\r\n"),
    "open-quote": _write_with_header("From", 'From: "Unfinished <someone@example.com>\r\n'),
    "space-before-colon": _write_with_header("Subject", "Subject : almost a header\r\n"),
    "no-colon": _write_with_head(lambda head: f"{head}This line has no colon\r\n"),
    "mbox-line": _write_with_head(
        lambda head: f"From someone@example.com Mon Jan  1 06:00:00 2024\r\n{head}"
    ),
    "raw-utf8-headers": _write_with_header("Subject", "Subject: Größe und Maße für Käufer\r\n"),
    "raw-latin1-headers": lambda spec: _join_message(
        replace_header(format_header_block(spec), "Subject", "Subject: Groesse\r\n"), _make_body(spec)
    ).replace(b"Groesse", "Größe".encode("latin-1"), 1),
    "split-character": _write_with_header(
        "Subject", "Subject: =?utf-8?Q?Gr=C3?=\r\n =?utf-8?Q?=B6=C3=9Fe?=\r\n"
    ),
    "unfinished-word": _write_with_header("Subject", "Subject: =?utf-8?Q?Gr=C3=B6=C3=9Fe\r\n"),
    "quoted-word": _write_with_header("From", 'From: "=?utf-8?Q?J=C3=BCrgen?=" <juergen@example.com>\r\n'),
    "no-body": lambda spec: format_header_block(spec).encode("ascii"),
    "empty-body": lambda spec: _join_message(format_header_block(spec), EncodedPart("", b"")),
    "path-filename": _write_with_filename("../../../tmp/passwd.txt"),
    "long-filename": _write_with_filename("x" * 400 + ".pdf"),
    "control-filename": _write_with_filename("a\tb\x07.pdf"),
}
