"""Forwarded mail: quoted in the text, enclosed as a message, and messages within messages."""

from dataclasses import replace
from datetime import timedelta

from mailsim.samples import personal_messages
from mailsim.samples.headers import date_text
from mailsim.samples.message_spec import MessageSpec, stranger
from mailsim.samples.mime_parts import EncodedPart, boundary, enclosed, letter, multipart, text
from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom, mix_bits
from mailsim.samples.text_blocks import paragraphs

_DEPTH = 4


def forward(order: MessageSpec) -> bytes:
    if order.variant == "inline":
        return letter(order, text(_quoted(order)))
    return letter(order, _wrapped(order, personal_messages.plain(original(order))))


def nested(order: MessageSpec) -> bytes:
    """A message in a message in a message, the innermost with a file of its own."""
    levels = [order]
    for _ in range(_DEPTH):
        levels.append(original(levels[-1]))
    inner = letter(levels[-1], _with_file(levels[-1]))
    for outer in reversed(levels[1:-1]):
        inner = letter(outer, _wrapped(outer, inner))
    return letter(order, _wrapped(order, inner))


def original(order: MessageSpec) -> MessageSpec:
    """The letter that an order forwards: older, by somebody else, to its sender."""
    seed = mix_bits(order.seed ^ 15)
    title = order.title.partition(": ")[2] or order.title
    return MessageSpec(
        seed=seed,
        language=order.language,
        sender=stranger(seed, order.language),
        to=(order.sender,),
        date=order.date - timedelta(hours=1 + seed % 90),
        subject=title,
        size=order.size,
    )


def _quoted(order: MessageSpec) -> str:
    tongue = PHRASES[order.language]
    first = original(order)
    words = paragraphs(order.language)
    dice = SeededRandom(first.seed, 16)
    body = "\n\n".join(dice.pick(words) for _ in range(max(2, (order.size or 1500) // 300)))
    return (
        f"{dice.pick(tongue.greetings)}\n\n{dice.pick(words)}\n\n{order.sender[0]}\n\n{tongue.forwarded}\n"
        f"{tongue.sender_label}: {first.sender[0]} <{first.sender[1]}>\n"
        f"{tongue.date_label}: {date_text(first.date)}\n"
        f"{tongue.subject_label}: {first.title}\n"
        f"{tongue.recipient_label}: {order.sender[0]} <{order.sender[1]}>\n\n{body}\n"
    )


def _wrapped(order: MessageSpec, message: bytes) -> EncodedPart:
    note = personal_messages.text_part(replace(order, size=None), 300)
    return multipart("mixed", (note, enclosed(message, "message.eml")), boundary(order.seed))


def _with_file(order: MessageSpec) -> EncodedPart:
    table = "".join(f"{number};{SeededRandom(order.seed, number).below(1000)}\r\n" for number in range(1, 40))
    file = EncodedPart(
        'Content-Type: text/csv; charset="us-ascii"; name="figures.csv"\r\n'
        "Content-Transfer-Encoding: 7bit\r\n"
        'Content-Disposition: attachment; filename="figures.csv"\r\n',
        table.encode("ascii"),
    )
    return multipart("mixed", (personal_messages.text_part(order, 400), file), boundary(order.seed))
