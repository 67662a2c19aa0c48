"""The calls about one Microsoft 365 mailbox. Ids survive a move because every call asks for such ids."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

from postroom.errors import PermanentError, PostroomError
from postroom.ports import TokenSource
from postroom.providers.batch_requests import BatchRequest
from postroom.providers.graph import wire
from postroom.providers.rate_limit import MailboxRateLimit
from postroom.providers.transport import LARGEST_ANSWER_BYTES, HttpAnswer, HttpCall, Transport

IMMUTABLE: Final = 'IdType="ImmutableId"'
LARGEST_UNBATCHED: Final = 3  # are not worth a batch
LARGEST_ALONE_BYTES: Final = 12 * 2**20
LARGEST_BATCH: Final = 20  # parts
LARGEST_BATCH_BYTES: Final = 24 * 2**20

T = TypeVar("T")


@dataclass(frozen=True)
class GraphApi:
    api: Transport
    url: str  # with the version
    user_id: str
    tokens: TokenSource
    pace: MailboxRateLimit

    async def get(
        self, path: str, shape: type[T], *, page: int | None = None, largest: int = LARGEST_ANSWER_BYTES
    ) -> T:
        return await self.api.read(
            HttpCall("GET", f"{self.url}/{path}", headers=_prefer_headers(page), largest=largest),
            lambda answer: answer.read(shape),
            tokens=self.tokens,
            pace=self.pace,
        )

    async def post(self, path: str, given: object, shape: type[T]) -> T:
        """Ask with a body; nothing is changed by it, so it may be asked again."""
        return await self.api.read(
            HttpCall("POST", f"{self.url}/{path}", headers=_prefer_headers(None), json=given),
            lambda answer: answer.read(shape),
            tokens=self.tokens,
            pace=self.pace,
        )

    async def download(self, path: str) -> bytes:
        call = HttpCall("GET", f"{self.url}/{path}", headers=_prefer_headers(None))
        return (await self.api.send(call, tokens=self.tokens, pace=self.pace)).body

    def stream(self, path: str) -> AsyncGenerator[bytes]:
        call = HttpCall("GET", f"{self.url}/{path}", headers=_prefer_headers(None))
        return self.api.stream(call, tokens=self.tokens, pace=self.pace)

    async def several(self, paths: Mapping[str, str]) -> Mapping[str, HttpAnswer]:
        """Answers of any status, by key. Their parts are paid for, and repeated, by whoever asks."""
        if len(paths) > LARGEST_UNBATCHED:
            return await self._batch(paths)
        calls = [
            HttpCall(
                "GET",
                f"{self.url}/{path}",
                headers=_prefer_headers(None),
                units=0,
                largest=LARGEST_ALONE_BYTES,
            )
            for path in paths.values()
        ]
        tries = (self.api.attempt(call, tokens=self.tokens, pace=self.pace) for call in calls)
        return dict(zip(paths, await asyncio.gather(*tries), strict=True))

    async def _batch(self, paths: Mapping[str, str]) -> Mapping[str, HttpAnswer]:
        """The gateway runs the parts side by side, so nothing else is asked of the mailbox meanwhile."""
        requests = [
            {"id": str(place), "method": "GET", "url": f"/{path}", "headers": _prefer_headers(None)}
            for place, path in enumerate(paths.values())
        ]
        call = HttpCall(
            "POST",
            f"{self.url}/$batch",
            json={"requests": requests},
            repeatable=False,
            width=LARGEST_BATCH,
            largest=LARGEST_BATCH_BYTES,
        )
        told = await self.api.read(
            call, lambda answer: answer.read(wire.GraphBatch), tokens=self.tokens, pace=self.pace
        )
        keys = list(paths)
        return {keys[int(part.id)]: _part_answer(part) for part in told.responses}

    def path(self, *names: str, **options: str) -> str:
        """`path("messages", key, select="id")`: names are encoded, options get their dollar sign."""
        here = "/".join(quote(name, safe="$") for name in ("users", self.user_id, *names))
        query = urlencode({f"${name}": value for name, value in options.items()}, quote_via=quote, safe="$")
        return f"{here}?{query}" if query else here

    def relative(self, link: str) -> str:
        """A link without the part that all have. One that leads elsewhere would take our token there."""
        if not link.startswith(f"{self.url}/"):
            raise PermanentError("Microsoft sent a link that leads to another host than POSTROOM_GRAPH_URL.")
        return link.removeprefix(f"{self.url}/")


def _prefer_headers(page: int | None) -> dict[str, str]:
    return {"Prefer": IMMUTABLE if page is None else f"{IMMUTABLE}, odata.maxpagesize={page}"}


def _part_answer(part: wire.GraphBatchPart) -> HttpAnswer:
    return HttpAnswer(
        part.status, {name.lower(): str(value) for name, value in part.headers.items()}, bytes(part.body)
    )


def batch_request(
    calls: GraphApi,
    path: Callable[[str], str],
    convert: Callable[[str, HttpAnswer], T],
    failed: Callable[[str, PostroomError], T],
    *,
    patient: bool = True,
) -> BatchRequest[T]:
    """For what is asked for by batches, each key at its path."""
    return BatchRequest(
        send=lambda keys: calls.several({key: path(key) for key in keys}),
        refusal=wire.to_error,
        convert=convert,
        failed=failed,
        pace=calls.pace,
        cost=calls.pace.quota.cost("part"),
        largest=LARGEST_BATCH,
        parallel=2,
        patient=patient,
    )
