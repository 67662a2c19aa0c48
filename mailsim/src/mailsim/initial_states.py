"""The first states of generated mail, and the scattering of numbers. Pure functions of a seed.

A million states take some milliseconds, because one random byte chooses each of them from a table of 256.
"""

import random
from dataclasses import dataclass
from hashlib import blake2b

from mailsim.message_state import MessageState, ProviderName

_MASK = (1 << 64) - 1


def stable_hash(*parts: object) -> int:
    """A 64-bit number that depends on the parts only, whatever the process."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def scramble(value: int) -> int:
    """Scatter a 64-bit number; the same input always gives the same output."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)


def get_arrival_state(provider: ProviderName, *, sent: bool = False) -> MessageState:
    """The state of mail as it comes in, or as it lies among the sent mail."""
    if provider == "gmail":
        return MessageState(frozenset({"SENT"} if sent else {"INBOX", "CATEGORY_PERSONAL"}), read=sent)
    return MessageState(frozenset({"sentitems" if sent else "inbox"}), read=sent)


@dataclass(frozen=True, slots=True)
class StateShare:
    """`of256` messages out of 256 start in this state."""

    of256: int
    state: MessageState


def _shares(provider: ProviderName) -> list[StateShare]:
    if provider == "gmail":
        return [
            StateShare(70, MessageState(frozenset({"INBOX", "CATEGORY_PERSONAL"}), read=True)),
            StateShare(18, MessageState(frozenset({"INBOX", "CATEGORY_PERSONAL"}))),
            StateShare(
                6, MessageState(frozenset({"INBOX", "CATEGORY_PERSONAL"}), read=True, importance="high")
            ),
            StateShare(4, MessageState(frozenset({"INBOX", "CATEGORY_PERSONAL"}), read=True, flag="flagged")),
            StateShare(30, MessageState(frozenset({"INBOX", "CATEGORY_UPDATES"}), read=True)),
            StateShare(14, MessageState(frozenset({"INBOX", "CATEGORY_UPDATES"}))),
            StateShare(26, MessageState(frozenset({"INBOX", "CATEGORY_PROMOTIONS"}))),
            StateShare(6, MessageState(frozenset({"INBOX", "CATEGORY_SOCIAL"}))),
            StateShare(36, MessageState(frozenset({"CATEGORY_PERSONAL"}), read=True)),
            StateShare(34, MessageState(frozenset({"SENT"}), read=True)),
            StateShare(6, MessageState(frozenset({"SPAM"}))),
            StateShare(5, MessageState(frozenset({"TRASH"}), read=True)),
            StateShare(1, MessageState(frozenset({"DRAFT"}), read=True, draft=True)),
        ]
    return [
        StateShare(120, MessageState(frozenset({"inbox"}), read=True)),
        StateShare(40, MessageState(frozenset({"inbox"}))),
        StateShare(6, MessageState(frozenset({"inbox"}), read=True, importance="high")),
        StateShare(4, MessageState(frozenset({"inbox"}), read=True, flag="flagged")),
        StateShare(3, MessageState(frozenset({"inbox"}), read=True, flag="complete")),
        StateShare(3, MessageState(frozenset({"inbox"}), read=True, categories=("Blue category",))),
        StateShare(30, MessageState(frozenset({"archive"}), read=True)),
        StateShare(36, MessageState(frozenset({"sentitems"}), read=True)),
        StateShare(8, MessageState(frozenset({"junkemail"}))),
        StateShare(5, MessageState(frozenset({"deleteditems"}), read=True)),
        StateShare(1, MessageState(frozenset({"drafts"}), read=True, draft=True)),
    ]


def draw_initial_states(
    provider: ProviderName, seed: int, count: int, *, spread: bool
) -> tuple[list[MessageState], bytes]:
    """The different states, and for each message the index of its own. Without `spread` all lie unread in the
    inbox.
    """
    shares = _shares(provider) if spread else [StateShare(256, get_arrival_state(provider))]
    table = bytes(index for index, share in enumerate(shares) for _ in range(share.of256))
    assert len(table) == 256
    return [share.state for share in shares], random.Random(seed).randbytes(count).translate(table)
