"""Request many items in batches, several at a time, with one result or failure for each key.

A part that is throttled or broken is requested again alone; the caller converts permanent failures. Errors
that concern the whole mailbox are raised. Knows no provider and no batch format.
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from postroom.errors import (
    NotFound,
    PostroomError,
    RateLimited,
    ResponseTooLarge,
    TokenRejected,
    TransientError,
)
from postroom.model import FetchFailure, MessageChange, Presence
from postroom.providers.rate_limit import MAX_RETRY_AFTER_SECONDS, MailboxRateLimit
from postroom.providers.transport import MAX_ATTEMPTS, ErrorMapping, HttpResponse

# Right after a push a message may not be readable yet. If it is missing a second time, the caller decides.
SECOND_LOOKUP_SECONDS: Final = 1.0
_LARGE_BYTES: Final = 2**20
_CONVERSIONS_PER_TURN: Final = 5  # a whole batch would block the event loop, and other commits, too long
_MAX_THROTTLED_BATCHES: Final = 8  # consecutive batches in which all parts were throttled

T = TypeVar("T")


@dataclass(frozen=True)
class BatchRequest(Generic[T]):
    """How items are requested. `send` returns responses by key; `failed` converts or raises an error."""

    send: Callable[[Sequence[str]], Awaitable[Mapping[str, HttpResponse]]]
    to_error: ErrorMapping
    convert: Callable[[str, HttpResponse], T]
    failed: Callable[[str, PostroomError], T]
    rate_limit: MailboxRateLimit
    cost: float
    max_parts: int
    parallel: int
    is_too_concurrent: Callable[[RateLimited], bool] = lambda _: False
    looks_twice: bool = True  # request missing items a second time


async def stream_results(request: BatchRequest[T], keys: Iterable[str]) -> AsyncGenerator[list[T]]:
    """The results in groups, as they arrive."""
    pending = _PendingKeys(request, deque(dict.fromkeys(keys)), request.max_parts)
    while pending.keys:
        async with aclosing(run_concurrently(pending.next_batch, request.parallel)) as groups:
            async for results in groups:
                if results:
                    yield results
        await pending.requeue_failed()


async def collect_results(request: BatchRequest[T], keys: Iterable[str]) -> list[T]:
    return [result async for group in stream_results(request, keys) for result in group]


async def run_concurrently(
    next_request: Callable[[], Coroutine[Any, Any, T] | None], parallel: int
) -> AsyncGenerator[T]:
    """The results of requests as they complete, at most `parallel` at a time, until there are no more."""
    running: set[asyncio.Task[T]] = set()
    done: set[asyncio.Task[T]] = set()
    try:
        while True:
            while len(running) < parallel and (request := next_request()) is not None:
                running.add(asyncio.create_task(request))
            if not running:
                return
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, *done, return_exceptions=True)


def to_deletion_or_failure(key: str, error: PostroomError) -> MessageChange | FetchFailure:
    """A lookup that finds nothing means that the message was deleted."""
    return MessageChange(key, Presence.DELETED) if isinstance(error, NotFound) else to_failure(key, error)


def to_failure(key: str, error: PostroomError) -> FetchFailure:
    after = error.retry_after if isinstance(error, TransientError) else None
    return FetchFailure(key, isinstance(error, NotFound), str(error), after)


@dataclass
class _PendingKeys(Generic[T]):
    """The keys that still have to be requested, and what happened to them so far."""

    request: BatchRequest[T]
    keys: deque[str]
    max_parts: int
    missing: list[str] = field(default_factory=list[str])
    looked_up_twice: set[str] = field(default_factory=set[str])
    broken: list[str] = field(default_factory=list[str])
    attempts: Counter[str] = field(default_factory=Counter[str])
    failed_batches: int = 0  # consecutive requests that failed as a whole
    throttled: int = 0
    order: asyncio.Lock = field(default_factory=asyncio.Lock)

    def next_batch(self) -> Coroutine[Any, Any, list[T]] | None:
        return self.send_batch() if self.keys else None

    async def requeue_failed(self) -> None:
        """Wait a little, then queue missing and broken keys again."""
        requeued = [*self.missing, *self.broken]
        if not requeued:
            return
        wait = SECOND_LOOKUP_SECONDS if self.missing else 0.0
        if self.broken:
            attempts_so_far = max(self.attempts[key] for key in self.broken)
            wait = max(wait, 0.25 * 2**attempts_so_far * random.uniform(1, 1.2))
        await self.request.rate_limit.clock.sleep(wait)
        self.looked_up_twice.update(self.missing)
        self.keys.extend(requeued)
        self.missing, self.broken = [], []

    async def send_batch(self) -> list[T]:
        """Send one batch, as large as the rate limit allows."""
        rate_limit = self.request.rate_limit
        async with self.order:
            most = min(self.max_parts, rate_limit.max_batch_parts, len(self.keys))
            if not most:
                return []
            granted, spent = await rate_limit.reserve(self.request.cost, most)
            keys = [self.keys.popleft() for _ in range(granted)]
        try:
            responses = await self.request.send(keys)
        except ResponseTooLarge as error:
            return self._split_batch(keys, error)
        except TokenRejected:
            raise
        except TransientError as error:
            await self._requeue(keys, error)
            return []
        finally:
            rate_limit.record_response(spent)
        return await self._convert_all(keys, responses)

    def _split_batch(self, keys: Sequence[str], error: ResponseTooLarge) -> list[T]:
        if len(keys) == 1:
            return [self.request.failed(keys[0], error)]
        self.max_parts = max(1, len(keys) // 2)
        self.keys.extend(keys)
        return []

    async def _requeue(self, keys: Sequence[str], error: TransientError) -> None:
        """Queue the keys of a failed request again after a wait; raise if that is long or tried too often."""
        self.failed_batches += 1
        if self.failed_batches >= MAX_ATTEMPTS or (error.retry_after or 0) > MAX_RETRY_AFTER_SECONDS:
            raise error
        wait = error.retry_after if error.retry_after is not None else 0.5 * 2 ** (self.failed_batches - 1)
        await self.request.rate_limit.clock.sleep(wait * random.uniform(1, 1.2))
        self.keys.extendleft(reversed(keys))

    async def _convert_all(self, keys: Sequence[str], responses: Mapping[str, HttpResponse]) -> list[T]:
        results: list[T] = []
        throttled_parts: list[RateLimited] = []
        for index, key in enumerate(keys):
            if index % _CONVERSIONS_PER_TURN == 0:
                await asyncio.sleep(0)
            response = responses.get(key)
            try:
                results.append(await self._convert(key, response))
            except RateLimited as error:
                throttled_parts.append(error)
                self.keys.append(key)
            except PostroomError as error:
                results.extend(self._handle_failure(key, error, response.status if response else 0))
        self.request.rate_limit.record_sizes(
            sum(len(response.body) for response in responses.values()), len(keys)
        )
        self._adapt_rate(throttled_parts, len(keys) - len(throttled_parts))
        return results

    async def _convert(self, key: str, response: HttpResponse | None) -> T:
        if response is None:
            raise TransientError("the provider returned no response to a part of a batch")
        error = self.request.to_error(response)
        if error is not None:
            raise error
        if len(response.body) < _LARGE_BYTES:
            return self.request.convert(key, response)
        return await asyncio.to_thread(self.request.convert, key, response)  # without blocking the event loop

    def _handle_failure(self, key: str, error: PostroomError, status: int) -> list[T]:
        """The converted failure, or nothing if the key will be requested again."""
        if isinstance(error, NotFound) and self.request.looks_twice and key not in self.looked_up_twice:
            self.missing.append(key)
            return []
        # Access is denied to a mailbox and not to a message; but a token may expire during a batch.
        concerns_mailbox = status in {401, 403} or (status == 404 and not isinstance(error, NotFound))
        if isinstance(error, TransientError) or concerns_mailbox:
            self.attempts[key] += 1
            if self.attempts[key] < (2 if concerns_mailbox else MAX_ATTEMPTS):
                self.broken.append(key)
                return []
        if concerns_mailbox:
            raise error
        return [self.request.failed(key, error)]

    def _adapt_rate(self, throttled_parts: Sequence[RateLimited], succeeded: int) -> None:
        rate_limit = self.request.rate_limit
        self.failed_batches = 0
        if not throttled_parts:
            self.throttled = 0
            rate_limit.record_success()
            rate_limit.record_complete_batch()
            return
        worst = max(throttled_parts, key=lambda error: error.retry_after or 0)
        self.throttled = 0 if succeeded else self.throttled + 1
        if self.throttled >= _MAX_THROTTLED_BATCHES:
            raise worst
        if any(self.request.is_too_concurrent(error) for error in throttled_parts):
            rate_limit.shrink_batch(succeeded)
        rate_limit.record_throttling(worst)
