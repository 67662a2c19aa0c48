"""The page of outgoing webhooks: how telling them goes, and what an admin does about it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.errors import PermanentError
from postroom.flow.outbound import webhooks as flow
from postroom.flow.outbound.deliver import Delivering
from postroom.model import Role, Secret
from postroom.store import feed, webhooks
from postroom.store.webhooks import Webhook
from postroom.web import forms, pages
from postroom.web.sessions import Gate, guarded, visitor_of

# What an application may want to hear of.
ABOUT: Final = {"document": "documents", "mailbox": "mailboxes", "message": "messages"}
# How far back a replay goes, in events of the feed.
REPLAYS: Final[Mapping[str, int | None]] = {
    "The last 100 events": 100,
    "The last 1,000 events": 1_000,
    "Everything that is kept": None,
}


@dataclass(frozen=True)
class Post:
    """What the page needs."""

    gate: Gate
    delivering: Delivering


@dataclass(frozen=True, slots=True)
class Said:
    """What came of a button, in words; of a new webhook also its secret, this once."""

    words: str
    good: bool = True
    secret: Secret | None = None
    url: str = ""


def routes(post: Post) -> list[Route]:
    gate = post.gate
    return [
        guarded(gate, "/deliveries", partial(page, post)),
        guarded(gate, "/deliveries/add", partial(add, post), Role.ADMIN, methods=["POST"]),
        guarded(
            gate, "/deliveries/{webhook:uuid}/{action}", partial(act, post), Role.ADMIN, methods=["POST"]
        ),
    ]


async def page(post: Post, request: Request, said: Said | None = None) -> Response:
    async with post.gate.database.transaction(visitor_of(request).organization) as connection:
        found = await webhooks.every(connection)
    return pages.page(
        "deliveries.html",
        400 if said and not said.good else 200,
        # What stands behind a question mark may be a key of who is told.
        webhooks=[(each.url.partition("?")[0], each) for each in found],
        about=ABOUT,
        replays=REPLAYS,
        said=said,
        now=datetime.now(UTC),
    )


async def add(post: Post, request: Request) -> Response:
    given, visitor = await forms.read(request), visitor_of(request)
    url = given.get("url", "").strip()
    kinds = [f"{each}.*" for each in ABOUT if f"about-{each}" in given]
    try:
        _, secret = await flow.add(
            post.gate.database,
            post.delivering.sealer,
            visitor.organization,
            url,
            kinds,
            allows_http=post.delivering.allows_http,
            actor=visitor.actor,
        )
    except PermanentError as error:
        return await page(post, request, Said(str(error), good=False, url=url))
    return await page(post, request, Said("Added. It is told of what happens from now on.", secret=secret))


async def act(post: Post, request: Request) -> Response:
    """One button."""
    wanted: UUID = request.path_params["webhook"]
    action = _ACTIONS.get(request.path_params["action"])
    async with post.gate.database.transaction(visitor_of(request).organization) as connection:
        found = await webhooks.get(connection, wanted)
    if action is None or found is None:
        raise HTTPException(404)
    try:
        said = await action(post, request, found)
    except PermanentError as error:
        said = Said(str(error), good=False)
    return await page(post, request, said) if said else RedirectResponse("/deliveries", 303)


async def _switch(enabled: bool, post: Post, request: Request, webhook: Webhook) -> None:  # noqa: FBT001  bound below
    visitor = visitor_of(request)
    await flow.change(
        post.gate.database,
        visitor.organization,
        webhook,
        url=webhook.url,
        kinds=webhook.kinds,
        enabled=enabled,
        actor=visitor.actor,
    )


async def _try(post: Post, request: Request, webhook: Webhook) -> Said:
    fault = await flow.test(post.delivering, visitor_of(request).organization, webhook)
    if fault is None:
        return Said("Accepted: a delivery of the type webhook.test went out and was taken.")
    return Said(f"Not accepted: the address {fault}.", good=False)


async def _replay(post: Post, request: Request, webhook: Webhook) -> None:
    given, visitor = await forms.read(request), visitor_of(request)
    if given.get("how") not in REPLAYS:
        raise HTTPException(400)
    count = REPLAYS[given["how"]]
    async with post.gate.database.transaction(visitor.organization) as connection:
        bounds = await feed.bounds(connection)
    after = bounds.pruned if count is None else max(bounds.pruned, bounds.last - count)
    await flow.replay(post.gate.database, visitor.organization, webhook, after=after, actor=visitor.actor)


async def _remove(post: Post, request: Request, webhook: Webhook) -> None:
    visitor = visitor_of(request)
    await flow.remove(post.gate.database, visitor.organization, webhook.id, actor=visitor.actor)


_ACTIONS: Final[Mapping[str, Callable[[Post, Request, Webhook], Awaitable[Said | None]]]] = {
    "on": partial(_switch, True),
    "off": partial(_switch, False),
    "test": _try,
    "replay": _replay,
    "remove": _remove,
}
