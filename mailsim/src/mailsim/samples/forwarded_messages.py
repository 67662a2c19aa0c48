"""Writers of forwarded messages: quoted in the text, attached as message/rfc822, or deeply nested."""

from dataclasses import replace
from datetime import timedelta

from mailsim.samples import personal_messages
from mailsim.samples.headers import format_date
from mailsim.samples.message_spec import MessageSpec, make_person
from mailsim.samples.mime_parts import (
    EncodedPart,
    build_message,
    embed_message,
    make_boundary,
    make_multipart,
    make_text,
)
from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom, mix_bits
from mailsim.samples.text_blocks import list_paragraphs

_DEPTH = 4


def write_forward(spec: MessageSpec) -> bytes:
    if spec.variant == "inline":
        return build_message(spec, make_text(_quote_original(spec)))
    return build_message(spec, _embed_message(spec, personal_messages.write_plain(make_original_spec(spec))))


def write_nested(spec: MessageSpec) -> bytes:
    """Write a message with several levels of attached messages.

    The innermost has an attachment.
    """
    levels = [spec]
    for _ in range(_DEPTH):
        levels.append(make_original_spec(levels[-1]))
    inner = build_message(levels[-1], _make_part_with_file(levels[-1]))
    for outer in reversed(levels[1:-1]):
        inner = build_message(outer, _embed_message(outer, inner))
    return build_message(spec, _embed_message(spec, inner))


def make_original_spec(spec: MessageSpec) -> MessageSpec:
    """Make the spec of the forwarded message: older, from another person, to the forwarder."""
    seed = mix_bits(spec.seed ^ 15)
    title = spec.title.partition(": ")[2] or spec.title
    return MessageSpec(
        seed=seed,
        language=spec.language,
        sender=make_person(seed, spec.language),
        to=(spec.sender,),
        date=spec.date - timedelta(hours=1 + seed % 90),
        subject=title,
        size=spec.size,
    )


def _quote_original(spec: MessageSpec) -> str:
    phrases = PHRASES[spec.language]
    first = make_original_spec(spec)
    paragraphs = list_paragraphs(spec.language)
    rng = SeededRandom(first.seed, 16)
    body = "\n\n".join(rng.pick(paragraphs) for _ in range(max(2, (spec.size or 1500) // 300)))
    return (
        f"{rng.pick(phrases.greetings)}\n\n{rng.pick(paragraphs)}\n\n{spec.sender[0]}\n\n{phrases.forwarded}\n"
        f"{phrases.sender_label}: {first.sender[0]} <{first.sender[1]}>\n"
        f"{phrases.date_label}: {format_date(first.date)}\n"
        f"{phrases.subject_label}: {first.title}\n"
        f"{phrases.recipient_label}: {spec.sender[0]} <{spec.sender[1]}>\n\n{body}\n"
    )


def _embed_message(spec: MessageSpec, message: bytes) -> EncodedPart:
    note = personal_messages.make_text_part(replace(spec, size=None), 300)
    return make_multipart("mixed", (note, embed_message(message, "message.eml")), make_boundary(spec.seed))


def _make_part_with_file(spec: MessageSpec) -> EncodedPart:
    table = "".join(f"{number};{SeededRandom(spec.seed, number).below(1000)}\r\n" for number in range(1, 40))
    file = EncodedPart(
        'Content-Type: text/csv; charset="us-ascii"; name="figures.csv"\r\n'
        "Content-Transfer-Encoding: 7bit\r\n"
        'Content-Disposition: attachment; filename="figures.csv"\r\n',
        table.encode("ascii"),
    )
    return make_multipart(
        "mixed", (personal_messages.make_text_part(spec, 400), file), make_boundary(spec.seed)
    )
