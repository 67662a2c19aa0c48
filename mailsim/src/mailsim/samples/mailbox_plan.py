"""Plan of a generated mailbox: the spec of its nth message, and which messages form a thread.

Everything is a pure function of seed, address and number and takes microseconds. A thread stays within
THREAD_SPAN consecutive numbers, so its first message is found without a search.
"""

import bisect
import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from mailsim.samples.message_kinds import KINDS, list_variants, make_subject
from mailsim.samples.message_spec import NO_PERSON, MessageSpec, Person, make_person
from mailsim.samples.phrases import LANGUAGES
from mailsim.samples.seeded_random import SeededRandom, hash_text, mix_bits

THREAD_SPAN = 32
_CONTACTS = 48
_LOOK_BACK = 8
_REPLY_KINDS = frozenset({"reply", "sent"})


@dataclass(frozen=True, slots=True, eq=False)
class _KindWeights:
    """Message kinds with their cumulative weights, for one mix."""

    names: tuple[str, ...]
    sums: tuple[float, ...]


@functools.lru_cache(maxsize=256)
def _sum_weights(mix: tuple[tuple[str, float], ...]) -> _KindWeights:
    names = tuple(name for name, weight in mix if weight > 0)
    if not names:
        raise ValueError("a mix needs at least one message kind with a weight above 0")
    for name in names:
        list_variants(name)
    return _KindWeights(names, tuple(itertools.accumulate(weight for _, weight in mix if weight > 0)))


_DEFAULT_WEIGHTS = _sum_weights(tuple((name, float(kind.weight)) for name, kind in KINDS.items()))


def _get_weights(mix: Mapping[str, float] | None) -> _KindWeights:
    return _DEFAULT_WEIGHTS if mix is None else _sum_weights(tuple(mix.items()))


def _draw_kind(message_seed: int, weights: _KindWeights) -> str:
    sums = weights.sums
    return weights.names[
        bisect.bisect_right(sums, (mix_bits(message_seed ^ 12) >> 11) / (1 << 53) * sums[-1])
    ]


def _message_seed(mailbox_key: int, number: int) -> int:
    return mix_bits(mailbox_key + number)


def find_reply_parent(
    seed: int, address: str, number: int, mix: Mapping[str, float] | None = None
) -> int | None:
    """Find the number of the message that this one answers; None if it starts a thread.

    It is lower and in the same span.
    """
    return _find_parent(hash_text(seed, address), number, _get_weights(mix))


@functools.lru_cache(maxsize=4096)  # neighbouring messages need the same parents
def _find_parent(mailbox_key: int, number: int, weights: _KindWeights) -> int | None:
    message_seed = _message_seed(mailbox_key, number)
    kind = _draw_kind(message_seed, weights)
    if kind not in _REPLY_KINDS or (kind == "sent" and message_seed & 1):
        return None
    reach = min(number % THREAD_SPAN, _LOOK_BACK)
    rng = SeededRandom(message_seed, 13)
    for _ in range(3 if reach else 0):
        candidate = number - rng.between(1, reach)
        if KINDS[_draw_kind(_message_seed(mailbox_key, candidate), weights)].personal:
            return candidate
    return None


def find_thread_start(seed: int, address: str, number: int, mix: Mapping[str, float] | None = None) -> int:
    """Find the number of the first message of this message's thread."""
    mailbox_key = hash_text(seed, address)
    return _list_ancestors(mailbox_key, number, _get_weights(mix))[-1]


def list_thread_numbers(
    seed: int, address: str, number: int, mix: Mapping[str, float] | None = None
) -> tuple[int, ...]:
    """List the numbers of this message's thread in ascending order, including numbers not yet in use."""
    mailbox_key = hash_text(seed, address)
    weights = _get_weights(mix)
    start = _list_ancestors(mailbox_key, number, weights)[-1]
    members = {start}
    for later in range(start + 1, (start // THREAD_SPAN + 1) * THREAD_SPAN):
        if _find_parent(mailbox_key, later, weights) in members:
            members.add(later)
    return tuple(sorted(members))


def _list_ancestors(mailbox_key: int, number: int, weights: _KindWeights) -> list[int]:
    """List the message itself, its parent, and so on up to the start of the thread."""
    chain = [number]
    while (parent := _find_parent(mailbox_key, chain[-1], weights)) is not None:
        chain.append(parent)
    return chain


@functools.lru_cache(maxsize=65536)
def _make_contact(mailbox_key: int, number: int) -> tuple[str, Person]:
    rng = SeededRandom(mailbox_key, 1000 + number)
    language = rng.pick(LANGUAGES)
    return language, make_person(rng.next_bits(), language)


def make_message_id(seed: int, address: str, number: int) -> str:
    return _format_message_id(hash_text(seed, address), number)


def _format_message_id(mailbox_key: int, number: int) -> str:
    return f"<{_message_seed(mailbox_key, number):016x}.{number}@mail.example.net>"


def plan_message(
    *,
    seed: int,
    address: str,
    number: int,
    date: datetime,
    mix: Mapping[str, float] | None = None,
    size: int | None = None,
) -> MessageSpec:
    """Make the spec of the nth message of a mailbox.

    `mix` maps kinds to weights; default: ordinary mail.
    """
    mailbox_key, weights = hash_text(seed, address), _get_weights(mix)
    message_seed = _message_seed(mailbox_key, number)
    kind = _draw_kind(message_seed, weights)
    chain = _list_ancestors(mailbox_key, number, weights)
    if kind == "reply" and len(chain) == 1:
        kind = "plain"
    start = _message_seed(mailbox_key, chain[-1])
    language, contact = _make_contact(mailbox_key, mix_bits(start ^ 14) % _CONTACTS)
    owner: Person = ("", address)
    if len(chain) == 1:
        subject = make_subject(kind, message_seed, language, date.year)
    else:
        starting_kind = _get_starting_kind(mailbox_key, chain[-1], weights)
        subject = f"Re: {make_subject(starting_kind, start, language, date.year)}"
    ids = tuple(_format_message_id(mailbox_key, earlier) for earlier in chain[:0:-1])
    return MessageSpec(
        seed=message_seed,
        kind=kind,
        language=language,
        sender=_choose_sender(kind, owner, contact),
        to=(contact,) if kind == "sent" else (owner,),
        cc=(_make_contact(mailbox_key, message_seed % _CONTACTS)[1],) if message_seed % 7 == 0 else (),
        date=date,
        message_id=_format_message_id(mailbox_key, number),
        in_reply_to=ids[-1] if ids else None,
        references=ids,
        subject=subject,
        size=size,
        quoted_seed=_message_seed(mailbox_key, chain[1]) if ids else None,
    )


def _choose_sender(kind: str, owner: Person, contact: Person) -> Person:
    if kind == "sent":
        return owner
    return contact if KINDS[kind].sender == "person" else NO_PERSON


def _get_starting_kind(mailbox_key: int, number: int, weights: _KindWeights) -> str:
    kind = _draw_kind(_message_seed(mailbox_key, number), weights)
    return "plain" if kind == "reply" else kind
