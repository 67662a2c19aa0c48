"""A simulated mailbox as Gmail shows it: its ids, its labels by id, one message in each format."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mailsim.gmail import message_json
from mailsim.gmail.errors import GmailError, bad_request, not_found
from mailsim.gmail.ids import GmailIds, is_message_id
from mailsim.google.options import GoogleOptions
from mailsim.mailbox import Mailbox
from mailsim.message_state import MessageState, get_labels

_AHEAD = 1 << 20  # bytes of letters
_FIXED = frozenset({"SENT", "DRAFT", "CHAT"})  # Gmail sets these itself


@lru_cache(maxsize=4096)
def label_list(state: MessageState) -> tuple[str, ...]:
    return tuple(sorted(get_labels(state)))


@dataclass(frozen=True, slots=True)
class GmailMailbox:
    """`turn` counts up, so that no attachment id is given twice."""

    mailbox: Mailbox
    ids: GmailIds
    options: GoogleOptions
    now_ms: Callable[[], int]
    turn: Callable[[], int]
    hidden_until: dict[tuple[str, int], int]  # mail that was announced and cannot be read yet

    def latest(self) -> int:
        return self.ids.history(self.mailbox.sequence)

    def history_id(self) -> str:
        return str(self.latest())

    def number(self, message_id: str) -> int:
        """The message with this id; 400 for what cannot be one, 404 for one that is not there."""
        if not is_message_id(message_id):
            raise bad_request("Invalid id value")
        number = self.ids.number(message_id)
        if number >= len(self.mailbox) or self.mailbox.state(number) is None:
            raise not_found()
        if self.hidden_until and self.now_ms() < self.hidden_until.get((self.mailbox.address, number), 0):
            raise not_found()
        return number

    def labels(self, number: int) -> tuple[str, ...]:
        return label_list(self.state(number))

    def thread(self, thread_id: str) -> tuple[int, list[int]]:
        """The root and the messages of a thread that still has any."""
        if not is_message_id(thread_id):
            raise bad_request("Invalid id value")
        root = self.ids.number(thread_id)
        members = self.mailbox.thread_members(root) if root < len(self.mailbox) else []
        if not members or self.mailbox.thread(members[0]) != root:
            raise not_found()
        return root, members

    def state(self, number: int) -> MessageState:
        state = self.mailbox.state(number)
        if state is None:
            raise not_found()
        return state

    def label_ids(self, wanted: Collection[str], *, settable: bool = False) -> frozenset[str]:
        for label in wanted:
            if label not in self.mailbox.folders or (settable and label in _FIXED):
                raise invalid_label(label)
        return frozenset(wanted)

    def reference(self, number: int) -> dict[str, Any]:
        """What listings say about a message."""
        return {"id": self.ids.message(number), "threadId": self.ids.message(self.mailbox.thread(number))}

    def message_history(self, number: int) -> int:
        change = self.mailbox.last_change(number)
        return self.ids.untouched(number) if change is None else self.ids.history(change.sequence)

    def message(self, number: int, form: str = "minimal", only: Collection[str] = ()) -> dict[str, Any]:
        """One message in the format `minimal`, `metadata`, `full` or `raw`."""
        mailbox, ids = self.mailbox, self.ids
        tree = mailbox.tree(number)
        shaped = self.reference(number)
        labels = self.labels(number)
        if labels:
            shaped["labelIds"] = labels
        shaped["snippet"] = message_json.snippet(tree)
        padded = self.padded(number)
        if form == "full":
            moment = self.now_ms()
            shaped["payload"] = message_json.payload(
                tree,
                lambda place: ids.attachment(number, place, moment, self.turn()),
                padded=padded,
                inline_bytes=self.options.inline_text_bytes,
            )
        elif form == "metadata":
            shaped["payload"] = message_json.metadata(tree, only)
        shaped["sizeEstimate"] = len(tree.whole)
        if form == "raw":
            shaped["raw"] = message_json.encode(tree.whole, padded=padded)
        shaped["historyId"] = str(self.message_history(number))
        shaped["internalDate"] = str(mailbox.received_ms(number))
        return shaped

    def read_ahead(self, ids: Iterable[str]) -> None:
        """Letters that will be asked for, written in a row, then read in a row: the same code again and again
        runs much faster than all the code of one call, then all of the next.
        """
        numbers: list[int] = []
        size = 0
        for message_id in ids:
            number = self.ids.number(message_id) if is_message_id(message_id) else -1
            if size < _AHEAD and self.mailbox.state(number) is not None:
                numbers.append(number)
                size += len(self.mailbox.raw(number))
        for number in numbers:
            self.mailbox.tree(number)

    def padded(self, number: int) -> bool:
        return self.options.padding == "always" or (self.options.padding == "mixed" and number % 2 == 0)


def invalid_label(label: str) -> GmailError:
    return bad_request(f"Invalid label: {label}")
