"""Mail that machines write: out-of-office answers and delivery failures (RFC 3834, RFC 3464)."""

from mailsim.samples import personal_messages
from mailsim.samples.forwarded_messages import original
from mailsim.samples.headers import date_text, opening
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import EncodedPart, boundary, letter, multipart, text
from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom

_FAILURES = (
    ("5.1.1", "550 5.1.1 User unknown"),
    ("5.2.2", "552 5.2.2 Mailbox full"),
    ("5.7.1", "554 5.7.1 Message rejected by policy"),
    ("4.4.7", "421 4.4.7 Delivery time expired"),
)


def auto_reply(order: MessageSpec) -> bytes:
    tongue = PHRASES[order.language]
    extra = "Auto-Submitted: auto-replied\r\nX-Auto-Response-Suppress: All\r\nPrecedence: auto_reply\r\n"
    if order.variant == "exchange":
        extra = "Auto-Submitted: auto-generated\r\nX-Auto-Response-Suppress: DR, OOF, AutoReply\r\n"
    greeting = tongue.greetings[order.seed % len(tongue.greetings)]
    body = f"{greeting}\n\n{tongue.away}\n\n{tongue.closings[0]}\n{order.sender[0]}\n"
    return letter(order, text(body), extra)


def bounce(order: MessageSpec) -> bytes:
    dice = SeededRandom(order.seed, 17)
    status, reason = dice.pick(_FAILURES)
    lost = f"nobody{dice.below(900)}@example.com"
    returned = original(order)
    sentence = (
        "This is the mail system at host mx.example.net.\n\n"
        f"Your message could not be delivered.\n\n<{lost}>: host mx.example.com[203.0.113.7] said: {reason}\n"
    )
    report = (
        "Reporting-MTA: dns; mx.example.net\r\n"
        f"Arrival-Date: {date_text(returned.date)}\r\n\r\n"
        f"Final-Recipient: rfc822; {lost}\r\n"
        f"Action: failed\r\nStatus: {status}\r\nRemote-MTA: dns; mx.example.com\r\n"
        f"Diagnostic-Code: smtp; {reason}\r\n"
    )
    parts = (
        text(sentence, charset="us-ascii", encoding="7bit"),
        EncodedPart("Content-Type: message/delivery-status\r\n", report.encode("ascii")),
        _returned(order, returned),
    )
    kind = multipart("report", parts, boundary(order.seed), "; report-type=delivery-status")
    return letter(order, kind, "Auto-Submitted: auto-replied\r\n")


def _returned(order: MessageSpec, message: MessageSpec) -> EncodedPart:
    """The lost letter, whole or only its header."""
    if order.variant == "headers":
        return EncodedPart("Content-Type: text/rfc822-headers\r\n", f"{opening(message)}\r\n".encode("ascii"))
    return EncodedPart("Content-Type: message/rfc822\r\n", personal_messages.plain(message))
