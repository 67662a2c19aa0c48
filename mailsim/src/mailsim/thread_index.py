"""ThreadIndex: which messages of a mailbox form a thread, and messages by Message-ID.

Threads of the initial mail are computed; those of messages that arrived later are stored. It keeps deleted
messages; `mailbox` filters them out.
"""

from array import array
from collections.abc import Iterable

from mailsim.initial_mail import InitialMail


class ThreadIndex:
    """The threads of a mailbox.

    A thread is identified by the number of its first message, its root.
    """

    def __init__(self, initial_mail: InitialMail) -> None:
        self._initial_mail = initial_mail
        self._roots = array("q")  # of messages after the initial mail
        self._later_members: dict[int, list[int]] = {}  # root -> its messages after the initial mail
        self._by_message_id: dict[str, list[int]] = {}  # of messages after the initial mail
        self._initial_total: int | None = None
        self._later_total = 0

    @property
    def total(self) -> int:
        if self._initial_total is None:
            self._initial_total = self._initial_mail.count_threads()
        return self._initial_total + self._later_total

    def record_start(self) -> None:
        self._later_total += 1

    def record_end(self) -> None:
        self._later_total -= 1

    def get_root(self, number: int) -> int:
        initial_count = self._initial_mail.count
        return (
            self._initial_mail.find_thread(number)
            if number < initial_count
            else self._roots[number - initial_count]
        )

    def list_members(self, root: int) -> list[int]:
        """List all messages that were ever in the thread, oldest first."""
        return [*self._initial_mail.list_thread_members(root), *self._later_members.get(root, ())]

    def find_by_message_id(self, message_id: str) -> int | None:
        return next(reversed(self.list_by_message_id(message_id)), None)

    def list_by_message_id(self, message_id: str) -> list[int]:
        """List all messages with a Message-ID; copies share it."""
        initial_number = self._initial_mail.find_by_message_id(message_id)
        return [
            *([] if initial_number is None else [initial_number]),
            *self._by_message_id.get(message_id, ()),
        ]

    def add_message(self, number: int, headers: Iterable[tuple[str, str]], root: int | None = None) -> int:
        """Add a new message to the given thread, to the thread its headers refer to, or to a new one."""
        named = {name.lower(): value for name, value in headers}
        if root is None:
            root = self._find_answered_thread(named)
        root = number if root is None else root
        self._roots.append(root)
        self._later_members.setdefault(root, []).append(number)
        if message_id := named.get("message-id", "").strip():
            self._by_message_id.setdefault(message_id, []).append(number)
        return root

    def _find_answered_thread(self, headers: dict[str, str]) -> int | None:
        message_ids = [
            *headers.get("in-reply-to", "").split(),
            *reversed(headers.get("references", "").split()),
        ]
        for message_id in message_ids:
            number = self.find_by_message_id(message_id)
            if number is not None:
                return self.get_root(number)
        return None
