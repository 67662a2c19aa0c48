"""Meeting requests and cancellations: text/calendar beside the text and as a file (RFC 5546, RFC 6047)."""

from datetime import UTC, datetime, timedelta

from mailsim.samples import personal_messages
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import EncodedPart, attachment, boundary, letter, multipart, text
from mailsim.samples.seeded_random import SeededRandom
from mailsim.samples.text_blocks import escaped


def meeting(order: MessageSpec) -> bytes:
    method = order.variant.upper()
    calendar = event(order, method)
    invitation = EncodedPart(
        f'Content-Type: text/calendar; charset="utf-8"; method={method}\r\n'
        "Content-Transfer-Encoding: base64\r\n",
        text(calendar, "calendar", encoding="base64").body,
    )
    page = text(f"<html><body><p>{escaped(order.title)}</p></body></html>\n", "html")
    choice = multipart(
        "alternative", (personal_messages.text_part(order, 400), page, invitation), boundary(order.seed)
    )
    file = attachment("invite.ics", "application/ics", calendar.replace("\n", "\r\n").encode())
    return letter(order, multipart("mixed", (choice, file), boundary(order.seed, 1)))


def event(order: MessageSpec, method: str = "PUBLISH") -> str:
    """An iCalendar object with one event, with LF line ends."""
    dice = SeededRandom(order.seed, 18)
    start = (order.date + timedelta(days=dice.between(1, 20))).replace(minute=0, second=0, microsecond=0)
    status = "CANCELLED" if method == "CANCEL" else "CONFIRMED"
    guests = "".join(
        _line(f"ATTENDEE;PARTSTAT=NEEDS-ACTION;RSVP=TRUE;CN={_safe(name or address)}:mailto:{address}")
        for name, address in (*order.to, *order.cc)
    )
    return (
        "BEGIN:VCALENDAR\nPRODID:-//Example Org//Calendar 1.0//EN\nVERSION:2.0\nCALSCALE:GREGORIAN\n"
        f"METHOD:{method}\nBEGIN:VEVENT\n"
        f"UID:{dice.roll():016x}@{order.sender[1].rpartition('@')[2]}\n"
        f"DTSTAMP:{_stamp(order.date)}\nDTSTART:{_stamp(start)}\nDTEND:{_stamp(start + timedelta(hours=1))}\n"
        f"{_line(f'SUMMARY:{_safe(order.title)}')}"
        f"{_line(f'ORGANIZER;CN={_safe(order.sender[0] or order.sender[1])}:mailto:{order.sender[1]}')}"
        f"{guests}SEQUENCE:{1 if method == 'CANCEL' else 0}\nSTATUS:{status}\n"
        f"LOCATION:Raum {dice.between(1, 40)}\n"
        "END:VEVENT\nEND:VCALENDAR\n"
    )


def _stamp(date: datetime) -> str:
    return f"{date.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _safe(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace(";", "\\;").replace(":", " ")


def _line(content: str) -> str:
    """A content line, folded at 72 characters."""
    return "\n ".join(content[start : start + 72] for start in range(0, len(content), 72)) + "\n"
