"""Writer of meeting requests and cancellations (RFC 5546, RFC 6047), and of their iCalendar objects."""

from datetime import UTC, datetime, timedelta

from mailsim.samples import personal_messages
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import (
    EncodedPart,
    build_message,
    make_attachment,
    make_boundary,
    make_multipart,
    make_text,
)
from mailsim.samples.seeded_random import SeededRandom
from mailsim.samples.text_blocks import escape_html


def write_meeting(spec: MessageSpec) -> bytes:
    method = spec.variant.upper()
    calendar = format_calendar(spec, method)
    invitation = EncodedPart(
        f'Content-Type: text/calendar; charset="utf-8"; method={method}\r\n'
        "Content-Transfer-Encoding: base64\r\n",
        make_text(calendar, "calendar", encoding="base64").body,
    )
    page = make_text(f"<html><body><p>{escape_html(spec.title)}</p></body></html>\n", "html")
    choice = make_multipart(
        "alternative",
        (personal_messages.make_text_part(spec, 400), page, invitation),
        make_boundary(spec.seed),
    )
    file = make_attachment("invite.ics", "application/ics", calendar.replace("\n", "\r\n").encode())
    return build_message(spec, make_multipart("mixed", (choice, file), make_boundary(spec.seed, 1)))


def format_calendar(spec: MessageSpec, method: str = "PUBLISH") -> str:
    """Format an iCalendar object with one event and LF line endings."""
    rng = SeededRandom(spec.seed, 18)
    name, address = spec.sender
    start = (spec.date + timedelta(days=rng.between(1, 20))).replace(minute=0, second=0, microsecond=0)
    status = "CANCELLED" if method == "CANCEL" else "CONFIRMED"
    guests = "".join(
        _fold_line(
            f"ATTENDEE;PARTSTAT=NEEDS-ACTION;RSVP=TRUE;CN={_escape_value(guest or mail)}:mailto:{mail}"
        )
        for guest, mail in (*spec.to, *spec.cc)
    )
    return (
        "BEGIN:VCALENDAR\nPRODID:-//Example Org//Calendar 1.0//EN\nVERSION:2.0\nCALSCALE:GREGORIAN\n"
        f"METHOD:{method}\nBEGIN:VEVENT\n"
        f"UID:{rng.next_bits():016x}@{spec.sender[1].rpartition('@')[2]}\n"
        f"DTSTAMP:{_format_timestamp(spec.date)}\n"
        f"DTSTART:{_format_timestamp(start)}\nDTEND:{_format_timestamp(start + timedelta(hours=1))}\n"
        f"{_fold_line(f'SUMMARY:{_escape_value(spec.title)}')}"
        f"{_fold_line(f'ORGANIZER;CN={_escape_value(name or address)}:mailto:{address}')}"
        f"{guests}SEQUENCE:{1 if method == 'CANCEL' else 0}\nSTATUS:{status}\n"
        f"LOCATION:Raum {rng.between(1, 40)}\n"
        "END:VEVENT\nEND:VCALENDAR\n"
    )


def _format_timestamp(date: datetime) -> str:
    return f"{date.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _escape_value(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace(";", "\\;").replace(":", " ")


def _fold_line(content: str) -> str:
    """Fold a content line at 72 characters."""
    return "\n ".join(content[start : start + 72] for start in range(0, len(content), 72)) + "\n"
