"""States (folder, labels, flags) in which messages arrive, are sent, or are initially in a mailbox.

A million states take a few milliseconds, because one random byte per message indexes a table of 256. The
messages themselves come from `initial_mail`.
"""

import random
from dataclasses import dataclass

from mailsim.message_state import MessageState, ProviderName


def get_arrival_state(provider: ProviderName, *, sent: bool = False) -> MessageState:
    """Return the state of a newly arrived or a newly sent message."""
    if provider == "gmail":
        return MessageState(frozenset({"SENT"} if sent else {"INBOX", "CATEGORY_PERSONAL"}), read=sent)
    return MessageState(frozenset({"sentitems" if sent else "inbox"}), read=sent)


@dataclass(frozen=True, slots=True)
class StateShare:
    """`of256` messages out of 256 start in this state."""

    of256: int
    state: MessageState


def _list_shares(provider: ProviderName) -> list[StateShare]:
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
    """Return the distinct states and, for each message, the index of its state.

    Without `spread`, all messages are unread in the inbox.
    """
    shares = _list_shares(provider) if spread else [StateShare(256, get_arrival_state(provider))]
    table = bytes(index for index, share in enumerate(shares) for _ in range(share.of256))
    assert len(table) == 256
    return [share.state for share in shares], random.Random(seed).randbytes(count).translate(table)
