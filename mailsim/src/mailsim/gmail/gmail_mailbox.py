"""GmailMailbox: a mailbox as the Gmail API presents it, with Gmail's IDs, labels and message formats.

`ids` converts the IDs, `message_json` parsed messages. This view is read-only: the API methods change
`mailbox` directly.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mailsim.gmail import message_json
from mailsim.gmail.errors import GmailError, bad_request, not_found
from mailsim.gmail.ids import GmailIds, is_message_id
from mailsim.gmail.mailbox_settings import MailboxSettings
from mailsim.google.options import GoogleOptions
from mailsim.mailbox import Mailbox
from mailsim.message_state import MessageState, get_labels

_PREFETCH_BYTES = 1 << 20
_FIXED = frozenset({"SENT", "DRAFT", "CHAT"})  # only Gmail sets these labels


@lru_cache(maxsize=4096)
def sort_label_ids(state: MessageState) -> tuple[str, ...]:
    return tuple(sorted(get_labels(state)))


@dataclass(frozen=True, slots=True)
class GmailMailbox:
    """The Gmail view of one mailbox.

    `next_nonce` counts up, so that every attachment ID is new.
    """

    mailbox: Mailbox
    ids: GmailIds
    options: GoogleOptions
    now_ms: Callable[[], int]
    next_nonce: Callable[[], int]
    hidden_until: dict[tuple[str, int], int]  # announced messages that are not readable yet
    settings: MailboxSettings

    def get_latest_history_id(self) -> int:
        return self.ids.to_history_id(self.mailbox.sequence)

    def format_history_id(self) -> str:
        return str(self.get_latest_history_id())

    def find_number(self, message_id: str) -> int:
        """Find a message by ID. Raise 400 for a malformed ID, 404 for an unknown one."""
        if not is_message_id(message_id):
            raise bad_request("Invalid id value")
        number = self.ids.to_number(message_id)
        if self.mailbox.state(number) is None:
            raise not_found()
        if self.hidden_until and self.now_ms() < self.hidden_until.get((self.mailbox.address, number), 0):
            raise not_found()
        return number

    def list_label_ids(self, number: int) -> tuple[str, ...]:
        return sort_label_ids(self.get_state(number))

    def find_thread(self, thread_id: str) -> tuple[int, list[int]]:
        """Return a thread's root and messages. Raise 404 if it has no messages left."""
        if not is_message_id(thread_id):
            raise bad_request("Invalid id value")
        root = self.ids.to_number(thread_id)
        members = self.mailbox.thread_members(root) if root >= 0 else []
        if not members or self.mailbox.thread_root(members[0]) != root:
            raise not_found()
        return root, members

    def get_state(self, number: int) -> MessageState:
        state = self.mailbox.state(number)
        if state is None:
            raise not_found()
        return state

    def validate_label_ids(self, label_ids: Collection[str], *, settable: bool = False) -> frozenset[str]:
        for label in label_ids:
            if label not in self.mailbox.folders or (settable and label in _FIXED):
                raise invalid_label(label)
        return frozenset(label_ids)

    def make_reference(self, number: int) -> dict[str, Any]:
        """Make the short form of a message that list responses contain."""
        root, message_id = self.mailbox.thread_root(number), self.ids.to_message_id(number)
        return {
            "id": message_id,
            "threadId": message_id if root == number else self.ids.to_message_id(root),
        }

    def get_message_history_id(self, number: int) -> int:
        change = self.mailbox.last_change(number)
        return (
            self.ids.to_initial_history_id(number)
            if change is None
            else self.ids.to_history_id(change.sequence)
        )

    def to_message_json(
        self, number: int, message_format: str = "minimal", header_names: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return a message in the format `minimal`, `metadata`, `full` or `raw`."""
        mailbox, ids = self.mailbox, self.ids
        tree = mailbox.tree(number)
        message = self.make_reference(number)
        labels = self.list_label_ids(number)
        if labels:
            message["labelIds"] = labels
        message["snippet"] = message_json.make_snippet(tree)
        padded = self.is_padded(number)
        if message_format == "full":
            now_ms = self.now_ms()
            message["payload"] = message_json.to_payload(
                tree,
                lambda position: ids.make_attachment_id(number, position, now_ms, self.next_nonce()),
                padded=padded,
                inline_bytes=self.options.inline_text_bytes,
            )
        elif message_format == "metadata":
            message["payload"] = message_json.to_metadata(tree, header_names)
        message["sizeEstimate"] = len(tree.whole)
        if message_format == "raw":
            message["raw"] = message_json.encode_base64url(tree.whole, padded=padded)
        message["historyId"] = str(self.get_message_history_id(number))
        message["internalDate"] = str(mailbox.received_ms(number))
        return message

    def prefetch(self, ids: Iterable[str]) -> None:
        """Generate, then parse, the messages of a batch before its calls run.

        Running the same code in a loop is much faster than running all the code of one call after another.
        """
        numbers: list[int] = []
        size = 0
        for message_id in ids:
            number = self.ids.to_number(message_id) if is_message_id(message_id) else -1
            if size < _PREFETCH_BYTES and self.mailbox.state(number) is not None:
                numbers.append(number)
                size += len(self.mailbox.raw(number))
        for number in numbers:
            self.mailbox.tree(number)

    def is_padded(self, number: int) -> bool:
        return self.options.padding == "always" or (self.options.padding == "mixed" and number % 2 == 0)


def invalid_label(label: str) -> GmailError:
    return bad_request(f"Invalid label: {label}")
