"""Asks for many messages, many in one call, several calls at a time. Every key is answered once.

A part that is throttled or broken is asked for again alone; one that fails for good is the caller's to name.
What concerns the whole mailbox is raised. Knows no provider.
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from postroom.errors import NotFound, PostroomError, RateLimited, ResponseTooLarge, TransientError
from postroom.model import FetchFailure, MessageChange, Presence
from postroom.providers.rate_limit import LONGEST_PATIENCE_SECONDS, MailboxRateLimit
from postroom.providers.transport import ATTEMPTS, ErrorMapping, HttpAnswer

# Just after a push a message may not be readable yet: it is gone when it is missing a second time.
SECOND_LOOK_SECONDS: Final = 1.0
_LARGE_BYTES: Final = 2**20
_READ_AT_ONCE: Final = 5  # answers; a whole batch takes long, and what others commit would wait for it
_MOST_THROTTLED: Final = 8  # batches in a row of which nothing came but requests for patience

T = TypeVar("T")


@dataclass(frozen=True)
class BatchRequest(Generic[T]):
    """How a provider is asked. `send` returns what came back, by key; `failed` may raise instead."""

    send: Callable[[Sequence[str]], Awaitable[Mapping[str, HttpAnswer]]]
    refusal: ErrorMapping
    convert: Callable[[str, HttpAnswer], T]
    failed: Callable[[str, PostroomError], T]
    pace: MailboxRateLimit
    cost: float
    largest: int  # parts of one call
    parallel: int
    crowded: Callable[[RateLimited], bool] = lambda _: False
    patient: bool = True  # look a second time for what is missing


async def stream_results(asking: BatchRequest[T], keys: Iterable[str]) -> AsyncGenerator[list[T]]:
    """In groups, as they come."""
    waiting = _PendingKeys(asking, deque(dict.fromkeys(keys)), asking.largest)
    while waiting.keys:
        async with aclosing(run_concurrently(waiting.next, asking.parallel)) as groups:
            async for found in groups:
                if found:
                    yield found
        await waiting.another_round()


async def collect_results(asking: BatchRequest[T], keys: Iterable[str]) -> list[T]:
    return [each async for group in stream_results(asking, keys) for each in group]


async def run_concurrently(
    following: Callable[[], Coroutine[Any, Any, T] | None], parallel: int
) -> AsyncGenerator[T]:
    """What jobs return, as they end, so many under way at a time. Ends when none is under way or follows."""
    under_way: set[asyncio.Task[T]] = set()
    done: set[asyncio.Task[T]] = set()
    try:
        while True:
            while len(under_way) < parallel and (job := following()) is not None:
                under_way.add(asyncio.create_task(job))
            if not under_way:
                return
            done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield task.result()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, *done, return_exceptions=True)


def deleted_or_unfetched(key: str, error: PostroomError) -> MessageChange | FetchFailure:
    """A look at what is not there tells that it was deleted."""
    return MessageChange(key, Presence.DELETED) if isinstance(error, NotFound) else unfetched(key, error)


def unfetched(key: str, error: PostroomError) -> FetchFailure:
    after = error.retry_after if isinstance(error, TransientError) else None
    return FetchFailure(key, isinstance(error, NotFound), str(error), after)


@dataclass
class _PendingKeys(Generic[T]):
    """What is still to be asked for."""

    asking: BatchRequest[T]
    keys: deque[str]
    largest: int
    missing: list[str] = field(default_factory=list[str])
    looked_twice: set[str] = field(default_factory=set[str])
    broken: list[str] = field(default_factory=list[str])
    attempts: Counter[str] = field(default_factory=Counter[str])
    setbacks: int = 0  # calls that failed as a whole, in a row
    throttled: int = 0
    order: asyncio.Lock = field(default_factory=asyncio.Lock)

    def next(self) -> Coroutine[Any, Any, list[T]] | None:
        return self.batch() if self.keys else None

    async def another_round(self) -> None:
        """A little later, for what was missing or broken."""
        again = [*self.missing, *self.broken]
        if not again:
            return
        wait = SECOND_LOOK_SECONDS if self.missing else 0.0
        if self.broken:
            tried = max(self.attempts[key] for key in self.broken)
            wait = max(wait, 0.25 * 2**tried * random.uniform(1, 1.2))
        await self.asking.pace.clock.sleep(wait)
        self.looked_twice.update(self.missing)
        self.keys.extend(again)
        self.missing, self.broken = [], []

    async def batch(self) -> list[T]:
        """One call, as large as the pace allows."""
        pace = self.asking.pace
        async with self.order:
            most = min(self.largest, pace.batch, len(self.keys))
            if not most:
                return []
            granted, spent = await pace.grant(self.asking.cost, most)
            keys = [self.keys.popleft() for _ in range(granted)]
        try:
            came = await self.asking.send(keys)
        except ResponseTooLarge as error:
            return self._halved(keys, error)
        except TransientError as error:
            await self._put_back(keys, error)
            return []
        finally:
            pace.answered(spent)
        return await self._settled(keys, came)

    def _halved(self, keys: Sequence[str], error: ResponseTooLarge) -> list[T]:
        if len(keys) == 1:
            return [self.asking.failed(keys[0], error)]
        self.largest = max(1, len(keys) // 2)
        self.keys.extend(keys)
        return []

    async def _put_back(self, keys: Sequence[str], error: TransientError) -> None:
        """The whole call failed: again a little later, unless that would be long or has been tried enough."""
        self.setbacks += 1
        if self.setbacks >= ATTEMPTS or (error.retry_after or 0) > LONGEST_PATIENCE_SECONDS:
            raise error
        wait = error.retry_after if error.retry_after is not None else 0.5 * 2 ** (self.setbacks - 1)
        await self.asking.pace.clock.sleep(wait * random.uniform(1, 1.2))
        self.keys.extendleft(reversed(keys))

    async def _settled(self, keys: Sequence[str], came: Mapping[str, HttpAnswer]) -> list[T]:
        found: list[T] = []
        refusals: list[RateLimited] = []
        for place, key in enumerate(keys):
            if place % _READ_AT_ONCE == 0:
                await asyncio.sleep(0)
            answer = came.get(key)
            try:
                found.append(await self._converted(key, answer))
            except RateLimited as error:
                refusals.append(error)
                self.keys.append(key)
            except PostroomError as error:
                found.extend(self._failed(key, error, answer.status if answer else 0))
        self.asking.pace.weighed(sum(len(answer.body) for answer in came.values()), len(keys))
        self._pace(refusals, len(keys) - len(refusals))
        return found

    async def _converted(self, key: str, answer: HttpAnswer | None) -> T:
        if answer is None:
            raise TransientError("the provider left a part of a batch unanswered")
        error = self.asking.refusal(answer)
        if error is not None:
            raise error
        if len(answer.body) < _LARGE_BYTES:
            return self.asking.convert(key, answer)
        return await asyncio.to_thread(self.asking.convert, key, answer)  # nobody waits for it meanwhile

    def _failed(self, key: str, error: PostroomError, status: int) -> list[T]:
        """Nothing where it is to be asked for again."""
        if isinstance(error, NotFound) and self.asking.patient and key not in self.looked_twice:
            self.missing.append(key)
            return []
        # Access is refused to a mailbox, not to a message; but a token may expire while a batch is under way.
        of_the_mailbox = status in {401, 403} or (status == 404 and not isinstance(error, NotFound))
        if isinstance(error, TransientError) or of_the_mailbox:
            self.attempts[key] += 1
            if self.attempts[key] < (2 if of_the_mailbox else ATTEMPTS):
                self.broken.append(key)
                return []
        if of_the_mailbox:
            raise error
        return [self.asking.failed(key, error)]

    def _pace(self, refusals: Sequence[RateLimited], answered: int) -> None:
        pace = self.asking.pace
        self.setbacks = 0
        if not refusals:
            self.throttled = 0
            pace.accepted()
            pace.roomy()
            return
        worst = max(refusals, key=lambda error: error.retry_after or 0)
        self.throttled = 0 if answered else self.throttled + 1
        if self.throttled >= _MOST_THROTTLED:
            raise worst
        if any(self.asking.crowded(error) for error in refusals):
            pace.crowded(answered)
        pace.refused(worst)
