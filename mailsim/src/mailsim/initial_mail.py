"""InitialMail: the generated mail that a mailbox is created with, by message number.

It gives the arrival time, Message-ID, thread and bytes of each message, and depends only on seed, address and
number. Nothing is stored; `samples` generates the bytes when a message is read. `initial_states` has the
states.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from mailsim import samples
from mailsim.hashing import scramble
from mailsim.message_state import MessageState

_MAX_COUNTED = 20_000  # above this many messages, the number of threads is estimated from the first ones
_SENT = frozenset({"SENT", "DRAFT", "sentitems", "drafts"})


@dataclass(frozen=True)
class InitialMail:
    """`count` messages spread evenly over the `days` before `end_ms`.

    Default `kinds`: the usual mix.
    """

    seed: int
    address: str
    end_ms: int
    count: int = 0
    days: float = 30
    kinds: tuple[str, ...] = ()
    spread: bool = True  # over inbox, archive, sent, spam, trash and drafts; False: all unread in the inbox
    size: int | None = None  # body size in bytes, if the kind supports it
    _weights: Mapping[str, float] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.kinds:
            object.__setattr__(self, "_weights", dict.fromkeys(self.kinds, 1.0))

    def received_ms(self, number: int) -> int:
        span = self.days * 86_400_000
        jitter = scramble(number * 2 + 1) % 1000 / 1000
        return int(self.end_ms - span + (number + jitter) * span / self.count)

    def make_message_id(self, number: int) -> str:
        return samples.make_message_id(self.seed, self.address, number)

    def find_by_message_id(self, message_id: str) -> int | None:
        digits = message_id.partition("@")[0].rpartition(".")[2]
        if not (digits.isascii() and digits.isdigit() and len(digits) < 12):
            return None
        number = int(digits)
        return number if number < self.count and self.make_message_id(number) == message_id else None

    def find_thread(self, number: int) -> int:
        return samples.find_thread_start(self.seed, self.address, number, self._weights)

    def list_thread_members(self, root: int) -> list[int]:
        if root >= self.count:
            return []
        members = samples.list_thread_numbers(self.seed, self.address, root, self._weights)
        return [number for number in members if number < self.count]

    def count_threads(self) -> int:
        counted = min(self.count, _MAX_COUNTED)
        parents = (
            samples.find_reply_parent(self.seed, self.address, n, self._weights) for n in range(counted)
        )
        starts = sum(parent is None for parent in parents)
        return starts if counted == self.count else round(self.count * starts / counted)

    def generate_message(self, number: int, state: MessageState, delivered_to: str = "") -> bytes:
        """Generate the bytes of a message.

        Its initial `state` determines whether the owner sent it. `delivered_to` is the mailbox, if its
        provider records in received mail for whom it arrived.
        """
        date = datetime.fromtimestamp(self.received_ms(number) // 1000, UTC)
        spec = samples.plan_message(
            seed=self.seed, address=self.address, number=number, date=date, mix=self._weights, size=self.size
        )
        by_owner, is_sent = spec.sender[1] == self.address, bool(state.folder_keys & _SENT)
        if is_sent and not by_owner:
            spec = replace(spec, kind="sent", variant="", sender=("", self.address), to=(spec.sender,))
        elif by_owner and not is_sent:
            kind = "reply" if spec.in_reply_to else "plain"
            spec = replace(spec, kind=kind, variant="", sender=spec.to[0], to=(spec.sender,))
        return samples.add_delivered_to(samples.write_message(spec), "" if is_sent else delivered_to)
