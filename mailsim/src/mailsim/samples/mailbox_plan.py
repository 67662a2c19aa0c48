"""What the nth message of a mailbox is: a pure function of seed, address and number, in microseconds.

Threads never leave a span of SPAN consecutive numbers, so a thread's first message is found without a search.
"""

import bisect
import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from mailsim.samples.message_kinds import KINDS, subject_for, variants
from mailsim.samples.message_spec import NO_PERSON, MessageSpec, Person, stranger
from mailsim.samples.phrases import LANGUAGES
from mailsim.samples.seeded_random import SeededRandom, hash_text, mix_bits

THREAD_SPAN = 32
_CONTACTS = 48
_LOOK_BACK = 8
_ANSWERS = frozenset({"reply", "sent"})


@dataclass(frozen=True, slots=True, eq=False)
class _KindWeights:
    """Kinds of letters, and their weights added up. There is one for each mix."""

    names: tuple[str, ...]
    sums: tuple[float, ...]


@functools.lru_cache(maxsize=256)
def _weighed(mix: tuple[tuple[str, float], ...]) -> _KindWeights:
    names = tuple(name for name, weight in mix if weight > 0)
    if not names:
        raise ValueError("a mix of letters needs at least one kind with a weight above 0")
    for name in names:
        variants(name)
    return _KindWeights(names, tuple(itertools.accumulate(weight for _, weight in mix if weight > 0)))


_ORDINARY = _weighed(tuple((name, float(kind.weight)) for name, kind in KINDS.items()))


def _scale(mix: Mapping[str, float] | None) -> _KindWeights:
    return _ORDINARY if mix is None else _weighed(tuple(mix.items()))


def _drawn(message_seed: int, scale: _KindWeights) -> str:
    sums = scale.sums
    return scale.names[bisect.bisect_right(sums, (mix_bits(message_seed ^ 12) >> 11) / (1 << 53) * sums[-1])]


def _message_seed(box: int, number: int) -> int:
    return mix_bits(box + number)


def reply_parent(seed: int, address: str, number: int, mix: Mapping[str, float] | None = None) -> int | None:
    """The number of the message that this one answers, lower and in the same span; None begins a thread."""
    return _parent(hash_text(seed, address), number, _scale(mix))


@functools.lru_cache(maxsize=4096)  # neighbours ask for the same ones
def _parent(box: int, number: int, scale: _KindWeights) -> int | None:
    own = _message_seed(box, number)
    kind = _drawn(own, scale)
    if kind not in _ANSWERS or (kind == "sent" and own & 1):
        return None
    reach = min(number % THREAD_SPAN, _LOOK_BACK)
    dice = SeededRandom(own, 13)
    for _ in range(3 if reach else 0):
        candidate = number - dice.between(1, reach)
        if KINDS[_drawn(_message_seed(box, candidate), scale)].personal:
            return candidate
    return None


def thread_start(seed: int, address: str, number: int, mix: Mapping[str, float] | None = None) -> int:
    """The number of the first message of the thread that this message belongs to."""
    box = hash_text(seed, address)
    return _ancestors(box, number, _scale(mix))[-1]


def thread_numbers(
    seed: int, address: str, number: int, mix: Mapping[str, float] | None = None
) -> tuple[int, ...]:
    """The numbers of all messages in this message's thread, ascending, numbers not yet in use included."""
    box = hash_text(seed, address)
    scale = _scale(mix)
    start = _ancestors(box, number, scale)[-1]
    inside = {start}
    for later in range(start + 1, (start // THREAD_SPAN + 1) * THREAD_SPAN):
        if _parent(box, later, scale) in inside:
            inside.add(later)
    return tuple(sorted(inside))


def _ancestors(box: int, number: int, scale: _KindWeights) -> list[int]:
    """The message itself, then its parent, and so on to the thread's start."""
    line = [number]
    while (parent := _parent(box, line[-1], scale)) is not None:
        line.append(parent)
    return line


@functools.lru_cache(maxsize=65536)
def _contact(box: int, number: int) -> tuple[str, Person]:
    dice = SeededRandom(box, 1000 + number)
    language = dice.pick(LANGUAGES)
    return language, stranger(dice.roll(), language)


def message_id_for(seed: int, address: str, number: int) -> str:
    return _message_id(hash_text(seed, address), number)


def _message_id(box: int, number: int) -> str:
    return f"<{_message_seed(box, number):016x}.{number}@mail.example.net>"


def order_for(
    *,
    seed: int,
    address: str,
    number: int,
    date: datetime,
    mix: Mapping[str, float] | None = None,
    size: int | None = None,
) -> MessageSpec:
    """The order for the nth message of a mailbox; `mix` gives kinds weights, ordinary mail by default."""
    box, scale = hash_text(seed, address), _scale(mix)
    own = _message_seed(box, number)
    kind = _drawn(own, scale)
    line = _ancestors(box, number, scale)
    if kind == "reply" and len(line) == 1:
        kind = "plain"
    start = _message_seed(box, line[-1])
    language, contact = _contact(box, mix_bits(start ^ 14) % _CONTACTS)
    owner: Person = ("", address)
    if len(line) == 1:
        subject = subject_for(kind, own, language, date.year)
    else:
        subject = f"Re: {subject_for(_started(box, line[-1], scale), start, language, date.year)}"
    ids = tuple(_message_id(box, earlier) for earlier in line[:0:-1])
    return MessageSpec(
        seed=own,
        kind=kind,
        language=language,
        sender=_sender(kind, owner, contact),
        to=(contact,) if kind == "sent" else (owner,),
        cc=(_contact(box, own % _CONTACTS)[1],) if own % 7 == 0 else (),
        date=date,
        message_id=_message_id(box, number),
        in_reply_to=ids[-1] if ids else None,
        references=ids,
        subject=subject,
        size=size,
        quoted_seed=_message_seed(box, line[1]) if ids else None,
    )


def _sender(kind: str, owner: Person, contact: Person) -> Person:
    if kind == "sent":
        return owner
    return contact if KINDS[kind].sender == "person" else NO_PERSON


def _started(box: int, number: int, scale: _KindWeights) -> str:
    kind = _drawn(_message_seed(box, number), scale)
    return "plain" if kind == "reply" else kind
