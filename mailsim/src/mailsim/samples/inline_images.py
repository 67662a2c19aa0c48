"""Pictures inside mail: shown by the HTML through their content id, between texts, or as the message."""

from mailsim.samples import personal_messages
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import EncodedPart, attachment, boundary, letter, multipart, text
from mailsim.samples.png_images import png
from mailsim.samples.seeded_random import SeededRandom
from mailsim.samples.text_blocks import escaped, paragraphs


def inline_image(order: MessageSpec) -> bytes:
    """`related`: text and HTML with a picture. `only`: nothing but HTML and its picture. `between`: a picture
    between two texts, without a content id. `bare`: the message itself is the picture.
    """
    if order.variant == "bare":
        return letter(order, _picture(order, ""))
    if order.variant == "between":
        first, last = personal_messages.text_part(order, 300), text(f"{order.sender[0]}\n")
        return letter(order, multipart("mixed", (first, _picture(order, ""), last), boundary(order.seed)))
    domain = order.sender[1].rpartition("@")[2]
    identity = f"image001.{SeededRandom(order.seed, 20).roll():016x}@{domain}"
    related = multipart(
        "related",
        (_page(order, identity), _picture(order, identity)),
        boundary(order.seed, 1),
        '; type="text/html"',
    )
    if order.variant == "only":
        return letter(order, related)
    choice = multipart(
        "alternative", (personal_messages.text_part(order, 600), related), boundary(order.seed)
    )
    return letter(order, choice)


def _page(order: MessageSpec, identity: str) -> EncodedPart:
    words = paragraphs(order.language)
    body = "".join(f"<p>{escaped(SeededRandom(order.seed, number).pick(words))}</p>\n" for number in range(3))
    return text(
        f'<html><body>\n{body}<img src="cid:{identity}" width="120" alt="Logo">\n</body></html>\n',
        "html",
    )


def _picture(order: MessageSpec, identity: str) -> EncodedPart:
    return attachment("image001.png", "image/png", png(order.seed), content_id=identity, inline=True)
