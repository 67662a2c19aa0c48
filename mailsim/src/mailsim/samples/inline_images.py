"""Writer of messages with inline images: by content ID, between text parts, or as the whole body."""

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
from mailsim.samples.png_images import draw_png
from mailsim.samples.seeded_random import SeededRandom
from mailsim.samples.text_blocks import escape_html, list_paragraphs


def write_inline_image(spec: MessageSpec) -> bytes:
    """Write a message with an inline image.

    `related`: text and HTML with an image. `only`: HTML with an image, no text. `between`: an image
    between two text parts, without a content ID. `bare`: the image is the whole body.
    """
    if spec.variant == "bare":
        return build_message(spec, _make_image_part(spec, ""))
    if spec.variant == "between":
        first, last = personal_messages.make_text_part(spec, 300), make_text(f"{spec.sender[0]}\n")
        return build_message(
            spec,
            make_multipart("mixed", (first, _make_image_part(spec, ""), last), make_boundary(spec.seed)),
        )
    domain = spec.sender[1].rpartition("@")[2]
    identity = f"image001.{SeededRandom(spec.seed, 20).next_bits():016x}@{domain}"
    related = make_multipart(
        "related",
        (_make_html_part(spec, identity), _make_image_part(spec, identity)),
        make_boundary(spec.seed, 1),
        '; type="text/html"',
    )
    if spec.variant == "only":
        return build_message(spec, related)
    choice = make_multipart(
        "alternative", (personal_messages.make_text_part(spec, 600), related), make_boundary(spec.seed)
    )
    return build_message(spec, choice)


def _make_html_part(spec: MessageSpec, identity: str) -> EncodedPart:
    paragraphs = list_paragraphs(spec.language)
    body = "".join(
        f"<p>{escape_html(SeededRandom(spec.seed, number).pick(paragraphs))}</p>\n" for number in range(3)
    )
    return make_text(
        f'<html><body>\n{body}<img src="cid:{identity}" width="120" alt="Logo">\n</body></html>\n',
        "html",
    )


def _make_image_part(spec: MessageSpec, identity: str) -> EncodedPart:
    return make_attachment("image001.png", "image/png", draw_png(spec.seed), content_id=identity, inline=True)
