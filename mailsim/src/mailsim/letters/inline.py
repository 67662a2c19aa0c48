"""Pictures inside mail: shown by the HTML through their content id, between texts, or as the message."""

from mailsim.letters import everyday
from mailsim.letters.blocks import escaped, paragraphs
from mailsim.letters.dice import Dice
from mailsim.letters.images import png
from mailsim.letters.order import Order
from mailsim.letters.parts import Part, attachment, boundary, letter, multipart, text


def inline_image(order: Order) -> bytes:
    """`related`: text and HTML with a picture. `only`: nothing but HTML and its picture. `between`: a picture
    between two texts, without a content id. `bare`: the message itself is the picture.
    """
    if order.variant == "bare":
        return letter(order, _picture(order, ""))
    if order.variant == "between":
        first, last = everyday.text_part(order, 300), text(f"{order.sender[0]}\n")
        return letter(order, multipart("mixed", (first, _picture(order, ""), last), boundary(order.seed)))
    domain = order.sender[1].rpartition("@")[2]
    identity = f"image001.{Dice(order.seed, 20).roll():016x}@{domain}"
    related = multipart(
        "related",
        (_page(order, identity), _picture(order, identity)),
        boundary(order.seed, 1),
        '; type="text/html"',
    )
    if order.variant == "only":
        return letter(order, related)
    choice = multipart("alternative", (everyday.text_part(order, 600), related), boundary(order.seed))
    return letter(order, choice)


def _page(order: Order, identity: str) -> Part:
    words = paragraphs(order.language)
    body = "".join(f"<p>{escaped(Dice(order.seed, number).pick(words))}</p>\n" for number in range(3))
    return text(
        f'<html><body>\n{body}<img src="cid:{identity}" width="120" alt="Logo">\n</body></html>\n',
        "html",
    )


def _picture(order: Order, identity: str) -> Part:
    return attachment("image001.png", "image/png", png(order.seed), content_id=identity, inline=True)
