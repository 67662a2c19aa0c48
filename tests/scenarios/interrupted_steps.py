"""Steps of a sync that are stopped in the middle: given up at any wait, or robbed of their lease."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any

from postroom.errors import LeaseLost, TransientError
from postroom.flow.mail import sync
from postroom.model import WorkKind
from postroom.store import work
from postroom.store.work import Lease
from scenarios.mirrored_mailbox import MirroredMailbox


async def try_step(box: MirroredMailbox) -> None:
    """A step as a worker runs it: trouble that passes leaves the work due."""
    if lease := await _claim(box):
        await _tried(box, lease, sync.run(box.context, lease))


async def cancel_step(box: MirroredMailbox, moment: int) -> None:
    """A worker that ends when its step has waited so often; the lease ends later."""
    if lease := await _claim(box):
        step = asyncio.ensure_future(_tried(box, lease, sync.run(box.context, lease), moment, _cancel_this))
        await asyncio.wait([step])
        if not step.cancelled():
            step.result()
        await _end_leases(box)


async def overtake_step(box: MirroredMailbox, moment: int) -> None:
    """A worker that loses its lease when its step has waited so often, and keeps running beside the next."""
    if lease := await _claim(box):
        reached = asyncio.Event()
        step = asyncio.ensure_future(_tried(box, lease, sync.run(box.context, lease), moment, reached.set))
        step.add_done_callback(lambda _: reached.set())
        await reached.wait()
        await _end_leases(box)
        await try_step(box)
        await step


async def _claim(box: MirroredMailbox) -> Lease | None:
    async with box.database.engine() as connection:
        claim = await work.claim(connection, [WorkKind.SYNC], batch=1, lease_seconds=300)
    return claim.leases[0] if claim.leases else None


async def _end_leases(box: MirroredMailbox) -> None:
    await box.owner.execute(
        "UPDATE work SET leased_until = postroom_now() - interval '1 second' WHERE lease_token IS NOT NULL"
    )


async def _tried(
    box: MirroredMailbox,
    lease: Lease,
    step: Coroutine[Any, Any, None],
    moment: int = 0,
    happens: Callable[[], object] = lambda: None,
) -> None:
    try:
        await _waiting(step, moment, happens)
    except LeaseLost:
        pass
    except TransientError:
        async with box.database.engine() as connection:
            await work.retry(connection, lease, delay=0, error="again")


@coroutine
def _waiting(
    step: Coroutine[Any, Any, None], moment: int, happens: Callable[[], object]
) -> Generator[Any, Any, None]:
    """Runs it; when it waits for the n-th time, something happens."""
    waits = 0
    proceed = partial(step.send, None)
    while True:
        try:
            waited_for = proceed()
        except StopIteration:
            return
        waits += 1
        if waits == moment:
            happens()
        try:
            yield waited_for
        except BaseException as error:  # noqa: BLE001 - whatever is thrown in belongs to the step
            proceed = partial(step.throw, error)
        else:
            proceed = partial(step.send, None)


def _cancel_this() -> None:
    if task := asyncio.current_task():
        task.cancel()
