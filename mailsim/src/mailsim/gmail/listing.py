"""Pages of message numbers, newest first, by labels and search, for messages, threads and drafts.

A page token is a position in the mailbox, so new mail between two pages does not shift the list. The JSON is
made by the methods that list.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mailsim import mime
from mailsim.gmail.errors import bad_request
from mailsim.gmail.gmail_mailbox import GmailMailbox
from mailsim.gmail.search_matching import CompiledSearch, compile_search, to_search_name
from mailsim.mailbox import Mailbox
from mailsim.message_state import MessageState, get_labels

MAX_PAGE = 500
DEFAULT_PAGE = 100
_HIDDEN = frozenset({"SPAM", "TRASH"})
# Gmail's result size estimate while there are more pages, whatever the mailbox holds.
_ESTIMATE_WITH_MORE_PAGES = 201
MessageFilter = Callable[["MessageSelection", int], bool]


@dataclass(frozen=True, slots=True)
class MessagePage:
    numbers: list[int]
    next_token: str | None

    def estimate_total(self) -> int:
        return _ESTIMATE_WITH_MORE_PAGES if self.next_token else len(self.numbers)


@dataclass(frozen=True)
class MailboxMessage:
    """A message to search in, parsed when its content is first needed."""

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
    """The filter of a list request: labels, time range and, if needed, message content."""

    gmail_mailbox: GmailMailbox
    search: CompiledSearch
    matches_state: Callable[[MessageState], bool]

    def matches(self, number: int) -> bool:
        """Apply the whole filter to one message; `list_page` applies it in steps."""
        mailbox = self.gmail_mailbox.mailbox
        state = mailbox.state(number)
        if state is None or not self.matches_state(state):
            return False
        return self.search.accepts(MailboxMessage(mailbox, number, state))

    def matches_content(self, number: int, state: MessageState) -> bool:
        matches = self.search.matches
        return matches is None or matches(MailboxMessage(self.gmail_mailbox.mailbox, number, state))


def list_page(
    gmail_mailbox: GmailMailbox,
    args: Mapping[str, Any],
    *,
    accept: MessageFilter | None = None,
    drafts: bool = False,
) -> MessagePage:
    """List one page for the arguments of a list method.

    `accept` is an additional filter.
    """
    size = min(args.get("maxResults") or DEFAULT_PAGE, MAX_PAGE)
    selection = select_messages(gmail_mailbox, args, drafts=drafts)
    messages_left = gmail_mailbox.options.search_depth
    numbers: list[int] = []
    for number in _list_candidates(selection, args.get("pageToken", "")):
        if len(numbers) == size or messages_left == 0:
            return MessagePage(numbers, gmail_mailbox.ids.to_page_token(number + 1))
        if selection.search.matches is not None:
            messages_left -= 1
        if selection.matches_content(number, gmail_mailbox.get_state(number)) and (
            accept is None or accept(selection, number)
        ):
            numbers.append(number)
    return MessagePage(numbers, None)


def select_messages(
    gmail_mailbox: GmailMailbox, args: Mapping[str, Any], *, drafts: bool = False
) -> MessageSelection:
    search = compile_mailbox_search(gmail_mailbox, args.get("q", ""))
    required = gmail_mailbox.validate_label_ids(args.get("labelIds", ()))
    shown = bool(args.get("includeSpamTrash")) or search.includes_spam_trash
    hidden = frozenset[str]() if shown else _HIDDEN - required

    def allows(state: MessageState) -> bool:
        labels = get_labels(state)
        fits = required <= labels and not hidden & labels and search.may_match_labels(labels)
        return fits and (state.draft or not drafts)

    return MessageSelection(gmail_mailbox, search, allows)


def compile_mailbox_search(gmail_mailbox: GmailMailbox, query: str) -> CompiledSearch:
    """Compile a search with the labels and the address of a mailbox."""
    mailbox = gmail_mailbox.mailbox
    names = {to_search_name(folder.name): key for key, folder in mailbox.folders.items()}
    return compile_search(query, gmail_mailbox.now_ms() / 1000, names, mailbox.address)


def _list_candidates(selection: MessageSelection, token: str) -> Iterator[int]:
    """List messages by labels and time, newest first, below the position of the page token."""
    mailbox, search = selection.gmail_mailbox.mailbox, selection.search
    below = len(mailbox)
    if token:
        position = selection.gmail_mailbox.ids.from_page_token(token)
        if position is None:
            raise bad_request("Invalid pageToken")
        below = min(below, position)
    if search.to_ms is not None:
        below = min(below, mailbox.first_number_since(search.to_ms))
    lowest = mailbox.first_number_since(search.from_ms) if search.from_ms is not None else 0
    # In a large mailbox, a Message-ID is looked up in the index instead of searched for.
    if search.message_id and len(mailbox) > selection.gmail_mailbox.options.search_depth:
        found = mailbox.find_by_message_id(f"<{search.message_id.strip('<>')}>")
        state = None if found is None else mailbox.state(found)
        if (
            found is not None
            and lowest <= found < below
            and state is not None
            and selection.matches_state(state)
        ):
            yield found
        return
    for number in mailbox.states.newest(selection.matches_state, below):
        if number < lowest:
            return
        yield number
