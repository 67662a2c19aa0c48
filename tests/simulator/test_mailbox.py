"""Mailboxes: messages, labels, folders, drafts and the change log."""

import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from example_counts import examples
from mailsim import mime
from mailsim.clock import Clock
from mailsim.errors import AlreadyExists, InvalidRequest, NotFound
from mailsim.mailbox import Mailbox
from mailsim.message_state import MessageState, get_labels, with_labels
from mailsim.registry import Registry

PROVIDERS = ["gmail", "outlook"]
START = datetime(2026, 5, 4, 9, tzinfo=UTC)  # generated mail ends at the clock's time


def mail(number: int, *more: str) -> bytes:
    head = [f"Message-ID: <m{number}@example.org>", f"Subject: mail {number}", *more]
    return ("\r\n".join(head) + f"\r\n\r\nText {number}\r\n").encode()


def registry(seed: int = 3) -> Registry:
    return Registry(seed, Clock(manual=True, start=START))


def box(provider: str, messages: int = 0, **more) -> Mailbox:
    return registry().create_mailbox(provider, "ada@example.com", messages=messages, **more)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_delivered_bytes_are_returned_unchanged(provider):
    mailbox = box(provider, 5)
    raw = b"not\x00even\xffmail" * 3
    number = mailbox.deliver(raw)
    assert number == 5
    assert mailbox.raw(number) == raw
    assert mailbox.total == 6


@pytest.mark.parametrize("provider", PROVIDERS)
def test_generated_mail_depends_only_on_the_seed(provider):
    first, second, other = (
        registry(seed).create_mailbox(provider, "a@example.com", messages=60) for seed in (1, 1, 2)
    )
    assert [first.raw(n) for n in range(60)] == [second.raw(n) for n in range(60)]
    assert [first.state(n) for n in range(60)] == [second.state(n) for n in range(60)]
    assert first.raw(7) != other.raw(7)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_moving_or_evicting_a_generated_message_never_changes_its_bytes(provider):
    mailbox = box(provider, 300)
    before = [mailbox.raw(number) for number in range(300)]
    for number in range(300):
        mailbox.trash(number)
    mailbox._cache.clear()
    assert [mailbox.raw(number) for number in range(300)] == before


@pytest.mark.parametrize("provider", PROVIDERS)
def test_sent_mail_comes_from_the_owner_and_other_mail_does_not(provider):
    mailbox = box(provider, 400)
    sent = {"SENT", "DRAFT", "sentitems", "drafts"}
    for number in range(400):
        state = mailbox.state(number)
        assert state is not None
        author = mailbox.tree(number).header("from")
        assert ("ada@example.com" in author) == bool(state.folder_keys & sent), (number, author)


def test_arrival_rises_with_the_number_and_stays_within_the_days():
    mailbox = box("gmail", 1000, days=10)
    times = [mailbox.received_ms(number) for number in range(1000)]
    assert times == sorted(times)
    span = mailbox.initial_mail.end_ms - 10 * 86_400_000, mailbox.initial_mail.end_ms
    assert span[0] <= times[0] <= times[-1] <= span[1]
    for moment in (0, times[0], times[500], times[500] + 1, times[-1] + 1):
        expected = next((n for n, time in enumerate(times) if time >= moment), 1000)
        assert mailbox.first_number_since(moment) == expected


@pytest.mark.parametrize("provider", PROVIDERS)
def test_threads_of_generated_mail_agree_with_its_headers(provider):
    mailbox = box(provider, 200)
    members: dict[int, list[int]] = {}
    for number in range(200):
        members.setdefault(mailbox.thread_root(number), []).append(number)
        named = mailbox.tree(number).header("in-reply-to").strip()
        answered = mailbox.find_by_message_id(named) if named else None
        assert (answered is not None) == bool(named)
        assert mailbox.thread_root(number) == (number if answered is None else mailbox.thread_root(answered))
    assert len(members) == mailbox.thread_total < 200
    for root, numbers in members.items():
        assert mailbox.thread_members(root) == numbers


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_reply_joins_the_thread_of_its_message(provider):
    mailbox = box(provider, 50)
    threads = mailbox.thread_total
    generated = mailbox.tree(20).header("message-id")
    first = mailbox.deliver(mail(1, f"In-Reply-To: {generated}"))
    second = mailbox.deliver(mail(2, "References: <other@example.org> <m1@example.org>"))
    alone = mailbox.deliver(mail(3, "In-Reply-To: <unknown@example.org>"))
    root = mailbox.thread_root(20)
    assert mailbox.thread_root(first) == mailbox.thread_root(second) == root
    assert mailbox.thread_members(root)[-2:] == [first, second]
    assert mailbox.thread_root(alone) == alone
    assert mailbox.thread_total == threads + 1
    mailbox.delete(alone)
    assert mailbox.thread_total == threads


def test_gmail_labels_and_flags_are_two_views_of_one_state():
    state = MessageState(
        frozenset({"INBOX", "Label_1"}), flag="flagged", importance="high", categories=("x",)
    )
    assert get_labels(state) == {"INBOX", "Label_1", "UNREAD", "STARRED", "IMPORTANT"}
    assert with_labels(state, get_labels(state)) == state
    read = with_labels(state, frozenset({"INBOX"}))
    assert read == MessageState(frozenset({"INBOX"}), read=True, categories=("x",))


def test_relabelling_logs_the_state_before_and_after():
    mailbox = box("gmail")
    label = mailbox.add_folder("Clients/Acme")
    number = mailbox.deliver(mail(1))
    change = mailbox.relabel(number, add={label.key, "STARRED"}, remove={"UNREAD", "INBOX"})
    assert change is not None
    assert change.kind == "changed"
    assert change.before is not None
    assert change.after is not None
    assert get_labels(change.after) - get_labels(change.before) == {label.key, "STARRED"}
    assert get_labels(change.before) - get_labels(change.after) == {"UNREAD", "INBOX"}
    assert mailbox.last_change(number) is change
    assert mailbox.relabel(number, add={"STARRED"}) is None
    assert mailbox.sequence == change.sequence


def test_an_outlook_message_is_in_exactly_one_folder():
    mailbox = box("outlook")
    number = mailbox.deliver(mail(1))
    folder = mailbox.add_folder("Invoices", "inbox")
    change = mailbox.move(number, folder.key)
    assert change is not None
    assert (change.before and change.before.folder, change.after and change.after.folder) == (
        "inbox",
        folder.key,
    )
    with pytest.raises(InvalidRequest):
        mailbox.set_state(number, MessageState(frozenset({"inbox", "archive"})))
    with pytest.raises(InvalidRequest):
        mailbox.relabel(number, add={"inbox"})
    with pytest.raises(NotFound):
        mailbox.move(number, "nowhere")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_marking_changes_only_the_given_properties(provider):
    mailbox = box(provider)
    number = mailbox.deliver(mail(1))
    before = mailbox.state(number)
    assert before is not None
    mailbox.mark(number, read=True)
    mailbox.mark(number, flag="flagged")
    mailbox.mark(number, importance="high", categories=["Red"])
    expected = replace(before, read=True, flag="flagged", importance="high", categories=("Red",))
    assert mailbox.state(number) == expected
    with pytest.raises(InvalidRequest):
        mailbox.mark(number, flag="purple")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_deletion_is_permanent(provider):
    mailbox = box(provider, 10)
    change = mailbox.delete(4)
    assert (change.kind, change.number, change.after) == ("deleted", 4, None)
    assert mailbox.state(4) is None
    assert mailbox.total == 9
    assert 4 not in list(mailbox.states.newest())
    assert mailbox.deliver(mail(1)) == 10
    for attempt in (mailbox.delete, mailbox.trash, mailbox.send_draft):
        with pytest.raises(NotFound):
            attempt(4)


def test_saving_a_gmail_draft_again_creates_a_new_message():
    mailbox = box("gmail")
    first = mailbox.save_draft(mail(1))
    second = mailbox.edit_draft(first, mail(2))
    third = mailbox.edit_draft(second, mail(3))
    assert mailbox.draft_key(third) == mailbox.draft_key(first) == first
    assert mailbox.thread_root(third) == first
    assert [(c.kind, c.number) for c in mailbox.changes] == [
        ("added", first), ("deleted", first), ("added", second), ("deleted", second), ("added", third),
    ]  # fmt: skip
    sent = mailbox.send_draft(third)
    state = mailbox.state(sent)
    assert sent != third
    assert state is not None
    assert get_labels(state) == {"SENT"}
    assert mailbox.raw(sent) == mail(3)
    assert mailbox.thread_total == 1


def test_an_outlook_draft_keeps_its_message():
    mailbox = box("outlook", 3, spread=False)
    number = mailbox.save_draft(mail(1))
    assert mailbox.edit_draft(number, mail(2)) == number
    assert mailbox.raw(number) == mail(2)
    assert mailbox.tree(number).header("subject") == "mail 2"
    assert mailbox.changes[-1].kind == "edited"
    assert mailbox.send_draft(number) == number
    state = mailbox.state(number)
    assert state is not None
    assert (state.folder, state.draft) == ("sentitems", False)
    with pytest.raises(InvalidRequest):
        mailbox.edit_draft(0, mail(3))


def test_deleting_a_label_removes_it_from_its_messages():
    mailbox = box("gmail")
    label = mailbox.add_folder("Old")
    numbers = [mailbox.deliver(mail(n)) for n in range(3)]
    for number in numbers[:2]:
        mailbox.relabel(number, add={label.key})
    mailbox.delete_folder(label.key)
    assert mailbox.states.count(mailbox.in_folder(label.key)) == 0
    assert mailbox.total == 3
    assert [change.kind for change in mailbox.changes[-3:]] == ["changed", "changed", "folder_deleted"]


def test_deleting_an_outlook_folder_deletes_its_contents():
    mailbox = box("outlook")
    parent = mailbox.add_folder("Projects")
    child = mailbox.add_folder("2026", parent.key)
    inside = mailbox.deliver(mail(1), MessageState(frozenset({child.key})))
    mailbox.deliver(mail(2))
    mailbox.delete_folder(parent.key)
    assert mailbox.state(inside) is None
    assert {parent.key, child.key}.isdisjoint(mailbox.folders)
    assert [c.kind for c in mailbox.changes[-3:]] == ["deleted", "folder_deleted", "folder_deleted"]


def test_folders_can_be_renamed_and_moved_but_not_into_themselves():
    mailbox = box("outlook")
    a = mailbox.add_folder("A")
    b = mailbox.add_folder("B", a.key)
    assert mailbox.change_folder(b.key, name="C").name == "C"
    assert mailbox.change_folder(b.key, parent="archive").parent == "archive"
    mailbox.change_folder(b.key, parent=a.key)
    for wrong in (a.key, b.key):
        with pytest.raises(InvalidRequest):
            mailbox.change_folder(a.key, parent=wrong)
    with pytest.raises(AlreadyExists):
        mailbox.add_folder("a")
    for system in (mailbox.change_folder, mailbox.delete_folder):
        with pytest.raises(InvalidRequest):
            system("inbox")
    with pytest.raises(InvalidRequest):
        mailbox.add_folder(" ")


def test_dropped_changes_raise_the_oldest_sequence():
    mailbox = box("gmail")
    for number in range(5):
        mailbox.deliver(mail(number))
    assert [change.sequence for change in mailbox.changes_after(2)] == [3, 4, 5]
    mailbox.forget_changes()
    assert mailbox.oldest_sequence == mailbox.sequence == 5
    mailbox.deliver(mail(6))
    assert [change.sequence for change in mailbox.changes_after(5)] == [6]


def test_every_change_reaches_the_listeners_of_mailbox_and_registry():
    mailboxes = registry()
    mailbox = mailboxes.create_mailbox("outlook", "ada@example.com")
    heard = []
    mailboxes.change_listeners.append(lambda box, change: heard.append((box.address, change.kind)))
    number = mailbox.deliver(mail(1))
    mailbox.mark(number, read=True)
    mailbox.delete(number)
    assert heard == [("ada@example.com", kind) for kind in ("added", "changed", "deleted")]


class MailboxChanges(RuleBasedStateMachine):
    """After any sequence of changes, counts, pages, threads and log agree with a simple model."""

    @initialize(provider=st.sampled_from(PROVIDERS), messages=st.integers(0, 40))
    def begin(self, provider, messages):
        self.mailbox = box(provider, messages)
        self.model = {n: self.mailbox.state(n) for n in range(messages)}
        self.dice = random.Random(messages)
        self.delivered = 0

    def some(self) -> int | None:
        return self.dice.choice(sorted(self.model)) if self.model else None

    @rule(answers=st.booleans())
    def deliver(self, answers):
        self.delivered += 1
        target = self.some() if answers else None
        header = (
            [f"In-Reply-To: {self.mailbox.tree(target).header('message-id')}"] if target is not None else []
        )
        number = self.mailbox.deliver(mail(self.delivered, *header))
        self.model[number] = self.mailbox.state(number)

    @rule(read=st.booleans(), flag=st.sampled_from(["notFlagged", "flagged", "complete"]))
    def mark(self, read, flag):
        if (number := self.some()) is not None:
            self.mailbox.mark(number, read=read, flag=flag)
            self.model[number] = replace(self.model[number], read=read, flag=flag)

    @rule()
    def trash(self):
        if (number := self.some()) is not None:
            self.mailbox.trash(number)
            self.model[number] = self.mailbox.state(number)

    @rule()
    def delete(self):
        if (number := self.some()) is not None:
            self.mailbox.delete(number)
            del self.model[number]

    @invariant()
    def it_agrees_with_the_model(self):
        states = self.mailbox.states
        assert list(states.newest()) == sorted(self.model, reverse=True)
        assert list(states.oldest()) == sorted(self.model)
        assert states.count(lambda state: not state.read) == sum(not s.read for s in self.model.values())
        assert self.mailbox.total == len(self.model)
        roots = {self.mailbox.thread_root(number) for number in self.model}
        assert self.mailbox.thread_total == len(roots)
        assert [change.sequence for change in self.mailbox.changes] == list(
            range(1, self.mailbox.sequence + 1)
        )

    @invariant()
    def replaying_the_log_gives_the_states(self):
        replayed: dict[int, MessageState] = {}
        for change in self.mailbox.changes:
            assert (
                change.number in replayed
                or change.number < self.mailbox.initial_mail.count
                or change.kind == "added"
            )
            if change.after is None:
                replayed.pop(change.number, None)
            else:
                replayed[change.number] = change.after
        assert all(self.model[number] == state for number, state in replayed.items())


TestMailboxChanges = MailboxChanges.TestCase
TestMailboxChanges.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)


def test_the_mime_tree_is_parsed_from_the_bytes():
    mailbox = box("gmail", 20)
    assert mailbox.tree(3) is mailbox.tree(3)
    assert mailbox.tree(3).headers == mime.parse(mailbox.raw(3)).headers


def test_folders_are_nested_at_most_300_levels_deep():
    """Exchange Online limits: a folder hierarchy has at most 300 levels."""
    mailbox = box("outlook")
    key = top = mailbox.add_folder("top").key
    for _ in range(298):
        key = mailbox.add_folder("x", key).key
    with pytest.raises(InvalidRequest):
        mailbox.add_folder("x", key)
    with pytest.raises(InvalidRequest):
        mailbox.copy_folder(top, "inbox")
    mailbox.delete_folder(top)
    assert key not in mailbox.folders
