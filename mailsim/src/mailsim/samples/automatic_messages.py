"""Writers of machine-generated messages: out-of-office replies (RFC 3834) and bounces (RFC 3464)."""

from mailsim.samples import personal_messages
from mailsim.samples.forwarded_messages import make_original_spec
from mailsim.samples.headers import format_date, format_header_block
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import EncodedPart, build_message, make_boundary, make_multipart, make_text
from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom

_FAILURES = (
    ("5.1.1", "550 5.1.1 User unknown"),
    ("5.2.2", "552 5.2.2 Mailbox full"),
    ("5.7.1", "554 5.7.1 Message rejected by policy"),
    ("4.4.7", "421 4.4.7 Delivery time expired"),
)


def write_auto_reply(spec: MessageSpec) -> bytes:
    phrases = PHRASES[spec.language]
    extra = "Auto-Submitted: auto-replied\r\nX-Auto-Response-Suppress: All\r\nPrecedence: auto_reply\r\n"
    if spec.variant == "exchange":
        extra = "Auto-Submitted: auto-generated\r\nX-Auto-Response-Suppress: DR, OOF, AutoReply\r\n"
    greeting = phrases.greetings[spec.seed % len(phrases.greetings)]
    body = f"{greeting}\n\n{phrases.away}\n\n{phrases.closings[0]}\n{spec.sender[0]}\n"
    return build_message(spec, make_text(body), extra)


def write_bounce(spec: MessageSpec) -> bytes:
    rng = SeededRandom(spec.seed, 17)
    status, reason = rng.pick(_FAILURES)
    lost = f"nobody{rng.below(900)}@example.com"
    returned = make_original_spec(spec)
    sentence = (
        "This is the mail system at host mx.example.net.\n\n"
        f"Your message could not be delivered.\n\n<{lost}>: host mx.example.com[203.0.113.7] said: {reason}\n"
    )
    report = (
        "Reporting-MTA: dns; mx.example.net\r\n"
        f"Arrival-Date: {format_date(returned.date)}\r\n\r\n"
        f"Final-Recipient: rfc822; {lost}\r\n"
        f"Action: failed\r\nStatus: {status}\r\nRemote-MTA: dns; mx.example.com\r\n"
        f"Diagnostic-Code: smtp; {reason}\r\n"
    )
    parts = (
        make_text(sentence, charset="us-ascii", encoding="7bit"),
        EncodedPart("Content-Type: message/delivery-status\r\n", report.encode("ascii")),
        _make_returned_part(spec, returned),
    )
    kind = make_multipart("report", parts, make_boundary(spec.seed), "; report-type=delivery-status")
    return build_message(spec, kind, "Auto-Submitted: auto-replied\r\n")


def _make_returned_part(spec: MessageSpec, message: MessageSpec) -> EncodedPart:
    """Make the part that holds the undelivered message, or only its header."""
    if spec.variant == "headers":
        return EncodedPart(
            "Content-Type: text/rfc822-headers\r\n", f"{format_header_block(message)}\r\n".encode("ascii")
        )
    return EncodedPart("Content-Type: message/rfc822\r\n", personal_messages.write_plain(message))
