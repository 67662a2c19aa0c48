"""Send requests and batches to Microsoft Graph for one mailbox, always with immutable IDs.

Retries are in `providers.transport`, those of parts of a batch in `providers.batch_requests`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

from postroom.errors import AccessDenied, PermanentError, PostroomError
from postroom.ports import TokenSource
from postroom.providers.batch_requests import BatchRequest
from postroom.providers.graph import wire
from postroom.providers.rate_limit import MailboxRateLimit
from postroom.providers.transport import MAX_RESPONSE_BYTES, HttpRequest, HttpResponse, Transport

IMMUTABLE: Final = 'IdType="ImmutableId"'
MAX_UNBATCHED: Final = 3  # messages; fewer are not worth a batch
MAX_SINGLE_BYTES: Final = 12 * 2**20
MAX_BATCH_PARTS: Final = 20  # the limit of Graph
MAX_BATCH_BYTES: Final = 24 * 2**20

T = TypeVar("T")


@dataclass(frozen=True)
class GraphApi:
    transport: Transport
    url: str  # includes the version
    user_id: str
    tokens: TokenSource
    rate_limit: MailboxRateLimit

    async def get(
        self, path: str, shape: type[T], *, page: int | None = None, max_bytes: int = MAX_RESPONSE_BYTES
    ) -> T:
        return await self.transport.read(
            HttpRequest("GET", f"{self.url}/{path}", headers=_prefer_headers(page), max_bytes=max_bytes),
            lambda response: response.read(shape),
            tokens=self.tokens,
            rate_limit=self.rate_limit,
        )

    async def post(self, path: str, body: object, shape: type[T]) -> T:
        """Send a query that has a body. It changes nothing, so it may be repeated."""
        return await self.transport.read(
            HttpRequest("POST", f"{self.url}/{path}", headers=_prefer_headers(None), json=body),
            lambda response: response.read(shape),
            tokens=self.tokens,
            rate_limit=self.rate_limit,
        )

    async def download(self, path: str) -> bytes:
        request = HttpRequest("GET", f"{self.url}/{path}", headers=_prefer_headers(None))
        return (await self.transport.send(request, tokens=self.tokens, rate_limit=self.rate_limit)).body

    def stream(self, path: str) -> AsyncGenerator[bytes]:
        request = HttpRequest("GET", f"{self.url}/{path}", headers=_prefer_headers(None))
        return self.transport.stream(request, tokens=self.tokens, rate_limit=self.rate_limit)

    async def get_many(self, paths: Mapping[str, str]) -> Mapping[str, HttpResponse]:
        """Responses of any status, by key. The caller has paid for them, and repeats them if necessary."""
        if len(paths) > MAX_UNBATCHED:
            return await self._batch(paths)
        calls = [
            HttpRequest(
                "GET",
                f"{self.url}/{path}",
                headers=_prefer_headers(None),
                units=0,
                max_bytes=MAX_SINGLE_BYTES,
            )
            for path in paths.values()
        ]
        tries = (
            self.transport.attempt(request, tokens=self.tokens, rate_limit=self.rate_limit)
            for request in calls
        )
        return dict(zip(paths, await asyncio.gather(*tries), strict=True))

    async def _batch(self, paths: Mapping[str, str]) -> Mapping[str, HttpResponse]:
        """Graph runs the parts concurrently, so no other request for the mailbox may run meanwhile."""
        requests = [
            {"id": str(place), "method": "GET", "url": f"/{path}", "headers": _prefer_headers(None)}
            for place, path in enumerate(paths.values())
        ]
        request = HttpRequest(
            "POST",
            f"{self.url}/$batch",
            json={"requests": requests},
            repeatable=False,
            width=MAX_BATCH_PARTS,
            max_bytes=MAX_BATCH_BYTES,
        )
        token = await self.tokens.get_token()
        batch = await self.transport.read(
            request,
            lambda response: response.read(wire.GraphBatch),
            tokens=self.tokens,
            rate_limit=self.rate_limit,
        )
        keys = list(paths)
        responses = {keys[int(part.id)]: _to_response(part) for part in batch.responses}
        # The batch itself succeeded. A token from before a reconnect may cover less than the new consent.
        is_denied = any(isinstance(wire.to_error(each), AccessDenied) for each in responses.values())
        if is_denied and await self.tokens.find_newer(token):
            return await self._batch(paths)
        return responses

    def path(self, *names: str, **options: str) -> str:
        """`path("messages", key, select="id")`: encodes the names and adds the dollar sign to options."""
        here = "/".join(quote(name, safe="$") for name in ("users", self.user_id, *names))
        query = urlencode({f"${name}": value for name, value in options.items()}, quote_via=quote, safe="$")
        return f"{here}?{query}" if query else here

    def relative(self, link: str) -> str:
        """A link without the API's URL. Raises if it leads to another host, which would receive our token."""
        if not link.startswith(f"{self.url}/"):
            raise PermanentError("Microsoft returned a link to a host other than that of POSTROOM_GRAPH_URL.")
        return link.removeprefix(f"{self.url}/")


def _prefer_headers(page: int | None) -> dict[str, str]:
    return {"Prefer": IMMUTABLE if page is None else f"{IMMUTABLE}, odata.maxpagesize={page}"}


def _to_response(part: wire.GraphBatchPart) -> HttpResponse:
    return HttpResponse(
        part.status, {name.lower(): str(value) for name, value in part.headers.items()}, bytes(part.body)
    )


def batch_request(
    api: GraphApi,
    path: Callable[[str], str],
    convert: Callable[[str, HttpResponse], T],
    failed: Callable[[str, PostroomError], T],
    *,
    looks_twice: bool = True,
) -> BatchRequest[T]:
    """A batch request that gets each key at its path."""
    return BatchRequest(
        send=lambda keys: api.get_many({key: path(key) for key in keys}),
        to_error=wire.to_error,
        convert=convert,
        failed=failed,
        rate_limit=api.rate_limit,
        cost=api.rate_limit.quota.cost("part"),
        max_parts=MAX_BATCH_PARTS,
        parallel=2,
        looks_twice=looks_twice,
    )
