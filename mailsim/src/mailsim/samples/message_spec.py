"""What to write: an Order. Whatever it leaves out is filled in from its seed when it is made."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mailsim.samples import firms, message_kinds
from mailsim.samples.phrases import LANGUAGES, PHRASES
from mailsim.samples.seeded_random import SeededRandom, mix_bits

Person = tuple[str, str]
"""A display name, which may be empty, and an address."""

NO_PERSON: Person = ("", "")
_UNDATED = datetime.min.replace(tzinfo=UTC)
_FIRST_DAY = datetime(2024, 1, 1, 6, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class MessageSpec:
    """`size` is the wanted number of bytes: of the body, or of the attachment where the kind has one.

    `subject` "" writes no Subject at all. `quoted_seed` is the seed of the message that a reply quotes.
    `variant` is one of `variants(kind)`.
    """

    seed: int = 0
    kind: str = "plain"
    variant: str = ""
    language: str = ""
    sender: Person = NO_PERSON
    to: tuple[Person, ...] = ()
    cc: tuple[Person, ...] = ()
    bcc: tuple[Person, ...] = ()
    date: datetime = _UNDATED
    message_id: str = ""
    in_reply_to: str | None = None
    references: tuple[str, ...] = ()
    subject: str | None = None
    size: int | None = None
    quoted_seed: int | None = None

    def __post_init__(self) -> None:
        fill = object.__setattr__
        if not self.language:
            fill(self, "language", LANGUAGES[mix_bits(self.seed) % len(LANGUAGES)])
        if not self.variant:
            fill(self, "variant", message_kinds.variant_for(self.kind, self.seed))
        elif self.variant not in message_kinds.variants(self.kind):
            raise ValueError(
                f"{self.kind} mail has no variant {self.variant!r}; it has {message_kinds.variants(self.kind)}"
            )
        if not self.sender[1]:
            fill(self, "sender", _writer(self))
        if not (self.to or self.cc or self.bcc):
            fill(self, "to", (("", "someone@example.org"),))
        if self.date is _UNDATED:
            fill(self, "date", _FIRST_DAY + timedelta(seconds=mix_bits(self.seed ^ 1) % 63_072_000))
        if not self.message_id:
            fill(self, "message_id", f"<{mix_bits(self.seed ^ 2):016x}@{self.sender[1].rpartition('@')[2]}>")
        if self.subject is None:
            fill(
                self,
                "subject",
                message_kinds.subject_for(self.kind, self.seed, self.language, self.date.year),
            )

    @property
    def title(self) -> str:
        return self.subject or ""


def _writer(order: MessageSpec) -> Person:
    """Who writes such a letter when the order does not say."""
    match message_kinds.KINDS[order.kind].sender:
        case "daemon":
            return "Mail Delivery System", "mailer-daemon@mx.example.net"
        case "news":
            firm, domain = SeededRandom(order.seed, 3).pick(PHRASES[order.language].firms)
            return firm, f"news@{domain}"
        case "supplier":
            firm = firms.supplier(order.seed, order.language)
            return firm.name, firm.mail("billing")
        case "broker":
            firm = firms.broker(firms.broker_layout(order.variant, order.seed))
            return firm.name, firm.mail("post")
        case _:
            return stranger(order.seed, order.language)


def stranger(seed: int, language: str) -> Person:
    """A person at a firm; the same seed and language give the same one."""
    dice = SeededRandom(seed, 3)
    tongue = PHRASES[language]
    name = dice.pick(tongue.names)
    return name, f"{local_part(name)}@{dice.pick(tongue.firms)[1]}"


_ASCII = str.maketrans(
    {
        "ä": "ae",
        "ö": "oe",
        "ü": "ue",
        "ß": "ss",
        "é": "e",
        "è": "e",
        "ê": "e",
        "ë": "e",
        "É": "e",
        "ï": "i",
        "î": "i",
        "ô": "o",
        "ç": "c",
        "à": "a",
        "'": "",
        " ": ".",
    }
)


def local_part(name: str) -> str:
    return name.lower().translate(_ASCII)
