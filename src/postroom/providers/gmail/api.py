"""Send GET, POST and batch requests to the Gmail API for one account; charge its quota by method.

Retries are in `providers.transport`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from postroom.errors import InvalidGrant, TokenRejected
from postroom.ports import TokenSource
from postroom.providers.gmail import batch_format, wire
from postroom.providers.rate_limit import MailboxRateLimit
from postroom.providers.transport import MAX_RESPONSE_BYTES, HttpRequest, HttpResponse, Transport

# The limit of a batch response. A larger one is requested, and charged, again in smaller batches.
MAX_BATCH_BYTES: Final = 64 * 2**20

T = TypeVar("T")


@dataclass(frozen=True)
class GmailApi:
    transport: Transport
    api_url: str
    user_id: str
    tokens: TokenSource
    rate_limit: MailboxRateLimit

    async def get(self, kind: str, path: str, shape: type[T], query: Mapping[str, Any] | None = None) -> T:
        request = HttpRequest("GET", self.url(path, query), units=self.rate_limit.quota.cost(kind))
        return await self._read(request, lambda response: response.read(shape))

    async def post(self, kind: str, path: str, json: object = None) -> HttpResponse:
        request = HttpRequest("POST", self.url(path), json=json, units=self.rate_limit.quota.cost(kind))
        return await self._read(request, lambda response: response)

    async def get_messages(self, keys: Sequence[str], query: Mapping[str, str]) -> Mapping[str, HttpResponse]:
        """Messages by one batch request. The caller has paid for its parts, and repeats it if necessary."""
        base, options = self.path("messages"), _query_string(query)
        paths = [f"{base}/{quote(key, safe='')}?{options}" for key in keys]
        request = HttpRequest(
            "POST",
            f"{self.api_url}/batch/gmail/v1",
            headers={"Content-Type": batch_format.CONTENT_TYPE},
            body=batch_format.encode_batch(paths),
            repeatable=False,
            units=0,
            max_bytes=MAX_BATCH_BYTES if len(keys) > 1 else MAX_RESPONSE_BYTES,
        )
        token = await self.tokens.get_token()
        responses = batch_format.decode_batch(await self._read(request, lambda response: response))
        # The batch itself succeeded. A token from before a reconnect may cover less than the new consent.
        if any(isinstance(wire.to_error(each), TokenRejected | InvalidGrant) for each in responses.values()):
            await self.tokens.replace_rejected(token)
        return {keys[index]: response for index, response in responses.items() if index < len(keys)}

    def url(self, path: str, query: Mapping[str, Any] | None = None) -> str:
        return f"{self.api_url}{self.path(path)}?{_query_string(query)}"

    def path(self, path: str) -> str:
        return f"/gmail/v1/users/{quote(self.user_id, safe='@')}/{quote(path)}"

    async def _read(self, request: HttpRequest, use: Callable[[HttpResponse], T]) -> T:
        return await self.transport.read(request, use, tokens=self.tokens, rate_limit=self.rate_limit)


def _query_string(query: Mapping[str, Any] | None) -> str:
    return urlencode({**(query or {}), "prettyPrint": "false"}, doseq=True)
