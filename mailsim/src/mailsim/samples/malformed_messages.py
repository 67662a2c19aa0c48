"""Mail that breaks the rules the way real mail does. A reader must neither fail on it nor lose it."""

from collections.abc import Callable

from mailsim.samples import personal_messages
from mailsim.samples.headers import opening, swapped
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import EncodedPart, attachment, base64_lines, boundary, enclosed, multipart

_UMLAUTS = "Größere Mengen für die Straße, 120 €\r\n"


def malformed(order: MessageSpec) -> bytes:
    return _FAULTS[order.variant](order)


def _joined(head: str, part: EncodedPart) -> bytes:
    return f"{head}{part.head}\r\n".encode() + part.body


def _body(order: MessageSpec) -> EncodedPart:
    return personal_messages.text_part(order, 500)


def _with_head(change: Callable[[str], str]) -> Callable[[MessageSpec], bytes]:
    return lambda order: _joined(change(opening(order)), _body(order))


def _line(name: str, line: str) -> Callable[[MessageSpec], bytes]:
    return _with_head(lambda head: swapped(head, name, line))


def _part(head: str, body: bytes) -> Callable[[MessageSpec], bytes]:
    return lambda order: _joined(opening(order), EncodedPart(head, body))


def _mixed(order: MessageSpec) -> EncodedPart:
    file = attachment("figures.txt", "text/plain", f"{order.seed}\r\n".encode() * 40)
    return multipart("mixed", (_body(order), file), boundary(order.seed))


def _no_final_boundary(order: MessageSpec) -> bytes:
    whole = _joined(opening(order), _mixed(order))
    return whole[: whole.rindex(b"--" + boundary(order.seed).encode())]


def _cut_in_base64(order: MessageSpec) -> bytes:
    whole = _joined(opening(order), _mixed(order))
    return whole[: whole.rindex(b"--" + boundary(order.seed).encode()) - 31]


def _no_boundary(order: MessageSpec) -> bytes:
    return _joined(opening(order), EncodedPart("Content-Type: multipart/mixed\r\n", _mixed(order).body))


def _boundary_prefix(order: MessageSpec) -> bytes:
    inner = multipart("alternative", (_body(order), _body(order)), "outer-inner")
    return _joined(opening(order), multipart("mixed", (inner, _body(order)), "outer"))


def _multipart_base64(order: MessageSpec) -> bytes:
    part = _mixed(order)
    return _joined(
        opening(order), EncodedPart(f"{part.head}Content-Transfer-Encoding: base64\r\n", part.body)
    )


def _enclosed_base64(order: MessageSpec) -> bytes:
    inside = enclosed(personal_messages.plain(order), "message.eml")
    head = inside.head.replace("7bit", "base64").replace("8bit", "base64")
    return _joined(
        opening(order),
        multipart("mixed", (EncodedPart(head, base64_lines(inside.body)),), boundary(order.seed)),
    )


def _file_named(name: str) -> Callable[[MessageSpec], bytes]:
    def made(order: MessageSpec) -> bytes:
        head = (
            "Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n"
            f'Content-Disposition: attachment; filename="{name}"\r\n'
        )
        return _joined(
            opening(order),
            multipart(
                "mixed", (_body(order), EncodedPart(head, base64_lines(b"data"))), boundary(order.seed)
            ),
        )

    return made


_TEXT = 'Content-Type: text/plain; charset="{}"\r\nContent-Transfer-Encoding: {}\r\n'

_FAULTS: dict[str, Callable[[MessageSpec], bytes]] = {
    "utf8-called-ascii": _part(_TEXT.format("us-ascii", "7bit"), _UMLAUTS.encode()),
    "utf8-called-latin1": _part(_TEXT.format("iso-8859-1", "8bit"), _UMLAUTS.encode()),
    "cp1252-called-utf8": _part(_TEXT.format("utf-8", "8bit"), _UMLAUTS.encode("cp1252")),
    "unknown-charset": _part(_TEXT.format("x-unknown-77", "8bit"), _UMLAUTS.encode()),
    "empty-charset": _part(_TEXT.format("", "8bit"), _UMLAUTS.encode()),
    "unknown-encoding": _part(_TEXT.format("utf-8", "x-strange"), b"Nothing special.\r\n"),
    "broken-base64": _part(_TEXT.format("utf-8", "base64"), b"R3LDvMOfZSBhd!!\r\nXMgS8O2bG4=Z\r\n"),
    "broken-quoted-printable": _part(
        _TEXT.format("utf-8", "quoted-printable"), b"100=ZZ percent = more=\r\n=4\r\n"
    ),
    "content-type-garbage": _part(
        "Content-Type: text\r\nContent-Transfer-Encoding: 7bit\r\n", b"Plain after all.\r\n"
    ),
    "content-type-twice": _part(
        _TEXT.format("utf-8", "7bit") + "Content-Type: text/html\r\n", b"<b>Which one?</b>\r\n"
    ),
    "uuencoded": _part("", b"begin 644 a.txt\r\n%:&5L;&\\*\r\n`\r\nend\r\n"),
    "nul-bytes": _part(_TEXT.format("utf-8", "8bit"), b"Zero\x00byte\x00here\r\n"),
    "long-line": _part(_TEXT.format("utf-8", "7bit"), b"word " * 8000 + b"\r\n"),
    "no-final-boundary": _no_final_boundary,
    "cut-in-base64": _cut_in_base64,
    "no-boundary": _no_boundary,
    "boundary-prefix": _boundary_prefix,
    "multipart-base64": _multipart_base64,
    "enclosed-base64": _enclosed_base64,
    "bare-lf": lambda order: personal_messages.html(order).replace(b"\r\n", b"\n"),
    "bare-cr": lambda order: _joined(
        opening(order), EncodedPart(_TEXT.format("utf-8", "7bit"), b"one\rtwo\rthree\r\n")
    ),
    "no-message-id": _line("Message-ID", ""),
    "no-date": _line("Date", ""),
    "bad-date": _line("Date", "Date: Mon, 32 Foo 2024 25:61:61 +9999\r\n"),
    "no-from": _line("From", ""),
    "two-froms": _line("From", "From: first@example.com\r\nFrom: second@example.com\r\n"),
    "open-quote": _line("From", 'From: "Unfinished <someone@example.com>\r\n'),
    "space-before-colon": _line("Subject", "Subject : almost a header\r\n"),
    "no-colon": _with_head(lambda head: f"{head}This line has no colon\r\n"),
    "mbox-line": _with_head(lambda head: f"From someone@example.com Mon Jan  1 06:00:00 2024\r\n{head}"),
    "raw-utf8-headers": _line("Subject", "Subject: Größe und Maße für Käufer\r\n"),
    "raw-latin1-headers": lambda order: _joined(
        swapped(opening(order), "Subject", "Subject: Groesse\r\n"), _body(order)
    ).replace(b"Groesse", "Größe".encode("latin-1"), 1),
    "split-character": _line("Subject", "Subject: =?utf-8?Q?Gr=C3?=\r\n =?utf-8?Q?=B6=C3=9Fe?=\r\n"),
    "unfinished-word": _line("Subject", "Subject: =?utf-8?Q?Gr=C3=B6=C3=9Fe\r\n"),
    "quoted-word": _line("From", 'From: "=?utf-8?Q?J=C3=BCrgen?=" <juergen@example.com>\r\n'),
    "no-body": lambda order: opening(order).encode("ascii"),
    "empty-body": lambda order: _joined(opening(order), EncodedPart("", b"")),
    "path-filename": _file_named("../../../tmp/passwd.txt"),
    "long-filename": _file_named("x" * 400 + ".pdf"),
    "control-filename": _file_named("a\tb\x07.pdf"),
}
