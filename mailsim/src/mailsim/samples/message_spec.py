"""MessageSpec, the description of a message to generate, and the fictitious people who send it.

Omitted fields are derived from its seed. `message_kinds` has the kinds, `mailbox_plan` makes the specs of a
mailbox.
"""

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
    """What a generated message should contain.

    `size` is the size in bytes of the body, or of the attachment if the kind has one. An empty `subject`
    omits the Subject field. `quoted_seed` is the seed of the message that a reply quotes. `variant` is one
    of `list_variants(kind)`. `delivered_to` is the mailbox for which a provider that records it accepted the
    message.
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
    delivered_to: str = ""

    def __post_init__(self) -> None:
        fill = object.__setattr__
        if not self.language:
            fill(self, "language", LANGUAGES[mix_bits(self.seed) % len(LANGUAGES)])
        if not self.variant:
            fill(self, "variant", message_kinds.choose_variant(self.kind, self.seed))
        elif self.variant not in message_kinds.list_variants(self.kind):
            known = message_kinds.list_variants(self.kind)
            raise ValueError(
                f"message kind {self.kind} has no variant {self.variant!r}; known variants: {known}"
            )
        if not self.sender[1]:
            fill(self, "sender", _choose_sender(self))
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
                message_kinds.make_subject(self.kind, self.seed, self.language, self.date.year),
            )

    @property
    def title(self) -> str:
        return self.subject or ""


def _choose_sender(spec: MessageSpec) -> Person:
    """Choose the sender of a message whose spec names none."""
    match message_kinds.KINDS[spec.kind].sender:
        case "daemon":
            return "Mail Delivery System", "mailer-daemon@mx.example.net"
        case "newsletter":
            firm, domain = SeededRandom(spec.seed, 3).pick(PHRASES[spec.language].firms)
            return firm, f"news@{domain}"
        case "supplier":
            firm = firms.choose_supplier(spec.seed, spec.language)
            return firm.name, firm.email("billing")
        case "broker":
            firm = firms.get_broker(firms.choose_broker_layout(spec.variant, spec.seed))
            return firm.name, firm.email("post")
        case _:
            return make_person(spec.seed, spec.language)


def make_person(seed: int, language: str) -> Person:
    """Make a person at a firm; the same seed and language give the same person."""
    rng = SeededRandom(seed, 3)
    phrases = PHRASES[language]
    name = rng.pick(phrases.names)
    return name, f"{to_local_part(name)}@{rng.pick(phrases.firms)[1]}"


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


def to_local_part(name: str) -> str:
    return name.lower().translate(_ASCII)
