"""Every kind of letter: who writes it, in which variants, and how often it comes in ordinary mail."""

from dataclasses import dataclass

from mailsim.letters.dice import Dice, mixed
from mailsim.letters.words import TONGUES


@dataclass(frozen=True, slots=True)
class Kind:
    """`writer` is a module of this package and a function in it, imported at the first letter of the kind.

    `weight` is its share of an ordinary mailbox, in thousandths; `personal` kinds may be answered.
    """

    writer: str
    weight: int
    variants: tuple[str, ...] = ("",)
    personal: bool = False


KINDS: dict[str, Kind] = {
    "plain": Kind("everyday.plain", 240, personal=True),
    "html": Kind("everyday.html", 200, personal=True),
    "reply": Kind("everyday.reply", 240, personal=True),
    "sent": Kind("everyday.sent", 80, personal=True),
    "newsletter": Kind("newsletter.newsletter", 140),
}


def kinds() -> tuple[str, ...]:
    return tuple(KINDS)


def variants(kind: str) -> tuple[str, ...]:
    """The shapes of a kind; `("",)` for a kind with one shape."""
    try:
        return KINDS[kind].variants
    except KeyError:
        raise ValueError(f"there is no kind of letter {kind!r}; there are {', '.join(KINDS)}") from None


def variant_for(kind: str, seed: int) -> str:
    shapes = variants(kind)
    return shapes[0] if len(shapes) == 1 else shapes[mixed(seed ^ 4) % len(shapes)]


def subject_for(kind: str, seed: int, language: str) -> str:
    dice = Dice(seed, 5)
    tongue = TONGUES[language]
    if kind == "newsletter":
        return dice.pick(tongue.headlines)
    subject = f"{dice.pick(tongue.subjects)} {dice.between(100, 9999)}"
    return f"Re: {subject}" if kind == "reply" else subject
