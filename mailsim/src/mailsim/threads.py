"""Thread index: computed for a mailbox's initial mail, stored for messages that arrived later."""

from array import array
from collections.abc import Iterable

from mailsim.initial_mail import InitialMail


class ThreadIndex:
    """The threads of a mailbox. A thread is identified by the number of its first message, its root."""

    def __init__(self, stock: InitialMail) -> None:
        self._stock = stock
        self._roots = array("q")  # of the messages after the stock
        self._joined: dict[int, list[int]] = {}  # thread -> its messages after the stock
        self._by_message_id: dict[str, list[int]] = {}  # of the messages after the stock
        self._stocked: int | None = None
        self._later = 0

    @property
    def total(self) -> int:
        if self._stocked is None:
            self._stocked = self._stock.thread_total()
        return self._stocked + self._later

    def began(self) -> None:
        self._later += 1

    def ended(self) -> None:
        self._later -= 1

    def root(self, number: int) -> int:
        stocked = self._stock.count
        return self._stock.thread(number) if number < stocked else self._roots[number - stocked]

    def members(self, root: int) -> list[int]:
        """List all messages that were ever in the thread, oldest first."""
        return [*self._stock.thread_members(root), *self._joined.get(root, ())]

    def by_message_id(self, message_id: str) -> int | None:
        return next(reversed(self.all_by_message_id(message_id)), None)

    def all_by_message_id(self, message_id: str) -> list[int]:
        """List all messages with a Message-ID; copies share it."""
        stocked = self._stock.by_message_id(message_id)
        return [*([] if stocked is None else [stocked]), *self._by_message_id.get(message_id, ())]

    def join(self, number: int, headers: Iterable[tuple[str, str]], root: int | None = None) -> int:
        """Add a new message to the given thread, to the thread its headers refer to, or to a new one."""
        named = {name.lower(): value for name, value in headers}
        if root is None:
            root = self._answered(named)
        root = number if root is None else root
        self._roots.append(root)
        self._joined.setdefault(root, []).append(number)
        if message_id := named.get("message-id", "").strip():
            self._by_message_id.setdefault(message_id, []).append(number)
        return root

    def _answered(self, headers: dict[str, str]) -> int | None:
        before = [*headers.get("in-reply-to", "").split(), *reversed(headers.get("references", "").split())]
        for message_id in before:
            number = self.by_message_id(message_id)
            if number is not None:
                return self.root(number)
        return None
