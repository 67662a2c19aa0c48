"""Pages of message numbers, newest first: labels, search, spam and trash, page tokens.

A page token is a place in the mailbox, so mail that arrives between two pages shifts nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mailsim import mime
from mailsim.gmail.errors import bad_request
from mailsim.gmail.gmail_mailbox import GmailMailbox
from mailsim.gmail.search_matching import CompiledSearch, compile_search, dashed
from mailsim.mailbox import Mailbox
from mailsim.message_state import MessageState, get_labels

MAX_PAGE = 500
DEFAULT_PAGE = 100
_HIDDEN = frozenset({"SPAM", "TRASH"})
# What Gmail answers while there are more pages, whatever the mailbox holds.
_MANY = 201
Accept = Callable[["MessageSelection", int], bool]


@dataclass(frozen=True, slots=True)
class MessagePage:
    numbers: list[int]
    next_token: str | None

    def estimate(self) -> int:
        return _MANY if self.next_token else len(self.numbers)


@dataclass(frozen=True)
class MailboxMessage:
    """A message as a search sees it; opened at the first look inside."""

    mailbox: Mailbox
    number: int
    state: MessageState

    @property
    def labels(self) -> frozenset[str]:
        return get_labels(self.state)

    @property
    def milliseconds(self) -> int:
        return self.mailbox.received_ms(self.number)

    @cached_property
    def _tree(self) -> mime.MimePart:
        return self.mailbox.tree(self.number)

    def size(self) -> int:
        return len(self.mailbox.raw(self.number))

    def header(self, name: str) -> str:
        return mime.decode_words(self._tree.header(name))

    def words(self) -> str:
        names = ("subject", "from", "to", "cc")
        texts = [
            part.text
            for _, part in self._tree.walk()
            if part.content_type.startswith("text/") and not part.filename
        ]
        return "\n".join([*(self.header(name) for name in names), *texts, *self.filenames()])

    def filenames(self) -> tuple[str, ...]:
        return tuple(part.filename or "noname" for _, part in self._tree.walk() if part.is_attachment)


@dataclass(frozen=True, slots=True)
class MessageSelection:
    """What a list method asked for: a condition on labels, bounds in time, and perhaps a look into the
    letter.
    """

    box: GmailMailbox
    search: CompiledSearch
    allows: Callable[[MessageState], bool]

    def takes(self, number: int) -> bool:
        """The whole condition on one message, as `page_of` applies it in steps."""
        state = self.box.mailbox.state(number)
        moment = self.box.mailbox.received_ms(number)
        early, late = self.search.from_ms, self.search.to_ms
        if state is None or not self.allows(state):
            return False
        if (early is not None and moment < early) or (late is not None and moment >= late):
            return False
        return self.opened(number, state)

    def opened(self, number: int, state: MessageState) -> bool:
        matches = self.search.matches
        return matches is None or matches(MailboxMessage(self.box.mailbox, number, state))


def page_of(
    box: GmailMailbox, args: Mapping[str, Any], *, accept: Accept | None = None, drafts: bool = False
) -> MessagePage:
    """One page as the arguments of a list method ask; `accept` has the last word on a message."""
    size = min(args.get("maxResults") or DEFAULT_PAGE, MAX_PAGE)
    selection = select(box, args, drafts=drafts)
    letters_left = box.options.search_depth
    found: list[int] = []
    for number in _candidates(selection, args.get("pageToken", "")):
        if len(found) == size or letters_left == 0:
            return MessagePage(found, box.ids.page(number + 1))
        if selection.search.matches is not None:
            letters_left -= 1
        if selection.opened(number, box.state(number)) and (accept is None or accept(selection, number)):
            found.append(number)
    return MessagePage(found, None)


def select(box: GmailMailbox, args: Mapping[str, Any], *, drafts: bool = False) -> MessageSelection:
    names = {dashed(folder.name): key for key, folder in box.mailbox.folders.items()}
    search = compile_search(args.get("q", ""), box.now_ms() / 1000, names)
    required = box.label_ids(args.get("labelIds", ()))
    shown = bool(args.get("includeSpamTrash")) or search.anywhere
    hidden = frozenset[str]() if shown else _HIDDEN - required

    def allows(state: MessageState) -> bool:
        labels = get_labels(state)
        fits = required <= labels and not hidden & labels and search.labels_allow(labels)
        return fits and (state.draft or not drafts)

    return MessageSelection(box, search, allows)


def _candidates(selection: MessageSelection, token: str) -> Iterator[int]:
    """Messages by labels and time, newest first, below the place that the page token names."""
    mailbox, search = selection.box.mailbox, selection.search
    below = len(mailbox)
    if token:
        place = selection.box.ids.place(token)
        if place is None:
            raise bad_request("Invalid pageToken")
        below = min(below, place)
    if search.to_ms is not None:
        below = min(below, mailbox.number_at(search.to_ms))
    lowest = mailbox.number_at(search.from_ms) if search.from_ms is not None else 0
    # In a large mailbox the letter with a certain Message-ID is looked up, not searched for.
    if search.message_id and len(mailbox) > selection.box.options.search_depth:
        found = mailbox.by_message_id(f"<{search.message_id.strip('<>')}>")
        state = None if found is None else mailbox.state(found)
        if found is not None and lowest <= found < below and state is not None and selection.allows(state):
            yield found
        return
    for number in mailbox.states.newest(selection.allows, below):
        if number < lowest:
            return
        yield number
