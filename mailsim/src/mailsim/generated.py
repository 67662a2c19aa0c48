"""The first states of generated mail, and the scattering of numbers. Pure functions of a seed.

A million states take some milliseconds, because one random byte chooses each of them from a table of 256.
"""

import random
from dataclasses import dataclass
from hashlib import blake2b

from mailsim.state import ProviderName, State

_MASK = (1 << 64) - 1


def stable(*parts: object) -> int:
    """A 64-bit number that depends on the parts only, whatever the process."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def mix(value: int) -> int:
    """Scatter a 64-bit number; the same input always gives the same output."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)


def arrival(provider: ProviderName, *, sent: bool = False) -> State:
    """The state of mail as it comes in, or as it lies among the sent mail."""
    if provider == "gmail":
        return State(frozenset({"SENT"} if sent else {"INBOX", "CATEGORY_PERSONAL"}), read=sent)
    return State(frozenset({"sentitems" if sent else "inbox"}), read=sent)


@dataclass(frozen=True, slots=True)
class Share:
    """`of256` messages out of 256 start in this state."""

    of256: int
    state: State


def _shares(provider: ProviderName) -> list[Share]:
    if provider == "gmail":
        return [
            Share(70, State(frozenset({"INBOX", "CATEGORY_PERSONAL"}), read=True)),
            Share(18, State(frozenset({"INBOX", "CATEGORY_PERSONAL"}))),
            Share(6, State(frozenset({"INBOX", "CATEGORY_PERSONAL"}), read=True, importance="high")),
            Share(4, State(frozenset({"INBOX", "CATEGORY_PERSONAL"}), read=True, flag="flagged")),
            Share(30, State(frozenset({"INBOX", "CATEGORY_UPDATES"}), read=True)),
            Share(14, State(frozenset({"INBOX", "CATEGORY_UPDATES"}))),
            Share(26, State(frozenset({"INBOX", "CATEGORY_PROMOTIONS"}))),
            Share(6, State(frozenset({"INBOX", "CATEGORY_SOCIAL"}))),
            Share(36, State(frozenset({"CATEGORY_PERSONAL"}), read=True)),
            Share(34, State(frozenset({"SENT"}), read=True)),
            Share(6, State(frozenset({"SPAM"}))),
            Share(5, State(frozenset({"TRASH"}), read=True)),
            Share(1, State(frozenset({"DRAFT"}), read=True, draft=True)),
        ]
    return [
        Share(120, State(frozenset({"inbox"}), read=True)),
        Share(40, State(frozenset({"inbox"}))),
        Share(6, State(frozenset({"inbox"}), read=True, importance="high")),
        Share(4, State(frozenset({"inbox"}), read=True, flag="flagged")),
        Share(3, State(frozenset({"inbox"}), read=True, flag="complete")),
        Share(3, State(frozenset({"inbox"}), read=True, categories=("Blue category",))),
        Share(30, State(frozenset({"archive"}), read=True)),
        Share(36, State(frozenset({"sentitems"}), read=True)),
        Share(8, State(frozenset({"junkemail"}))),
        Share(5, State(frozenset({"deleteditems"}), read=True)),
        Share(1, State(frozenset({"drafts"}), read=True, draft=True)),
    ]


def first_states(provider: ProviderName, seed: int, count: int, *, spread: bool) -> tuple[list[State], bytes]:
    """The different states, and for each message the index of its own. Without `spread` all lie unread in the
    inbox.
    """
    shares = _shares(provider) if spread else [Share(256, arrival(provider))]
    table = bytes(index for index, share in enumerate(shares) for _ in range(share.of256))
    assert len(table) == 256
    return [share.state for share in shares], random.Random(seed).randbytes(count).translate(table)
