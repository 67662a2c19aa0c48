"""The calls of one Gmail account: each by its kind, which says what it costs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from postroom.ports import TokenSource
from postroom.providers.gmail import batch_format
from postroom.providers.rate_limit import MailboxRateLimit
from postroom.providers.transport import LARGEST_ANSWER_BYTES, HttpAnswer, HttpCall, Transport

# Of a batch. Messages of more than this together are asked for, and paid for, again in smaller ones.
LARGEST_BATCH_BYTES: Final = 64 * 2**20

T = TypeVar("T")


@dataclass(frozen=True)
class GmailApi:
    api: Transport
    api_url: str
    user_id: str
    tokens: TokenSource
    pace: MailboxRateLimit

    async def get(self, kind: str, path: str, shape: type[T], query: Mapping[str, Any] | None = None) -> T:
        call = HttpCall("GET", self.url(path, query), units=self.pace.quota.cost(kind))
        return await self._read(call, lambda answer: answer.read(shape))

    async def post(self, kind: str, path: str, json: object = None) -> HttpAnswer:
        call = HttpCall("POST", self.url(path), json=json, units=self.pace.quota.cost(kind))
        return await self._read(call, lambda answer: answer)

    async def messages(self, keys: Sequence[str], query: Mapping[str, str]) -> Mapping[str, HttpAnswer]:
        """Messages by one batch. Its parts are paid for already, and it is repeated by whoever asks."""
        place, options = self.path("messages"), _query_string(query)
        paths = [f"{place}/{quote(key, safe='')}?{options}" for key in keys]
        call = HttpCall(
            "POST",
            f"{self.api_url}/batch/gmail/v1",
            headers={"Content-Type": batch_format.CONTENT_TYPE},
            body=batch_format.encode_batch(paths),
            repeatable=False,
            units=0,
            largest=LARGEST_BATCH_BYTES if len(keys) > 1 else LARGEST_ANSWER_BYTES,
        )
        token = await self.tokens.get_token()
        found = batch_format.decode_batch(await self._read(call, lambda answer: answer))
        if any(answer.status == 401 for answer in found.values()):  # told of each part, not of the whole
            await self.tokens.replace_rejected(token)
        return {keys[place]: answer for place, answer in found.items() if place < len(keys)}

    def url(self, path: str, query: Mapping[str, Any] | None = None) -> str:
        return f"{self.api_url}{self.path(path)}?{_query_string(query)}"

    def path(self, path: str) -> str:
        return f"/gmail/v1/users/{quote(self.user_id, safe='@')}/{quote(path)}"

    async def _read(self, call: HttpCall, use: Callable[[HttpAnswer], T]) -> T:
        return await self.api.read(call, use, tokens=self.tokens, pace=self.pace)


def _query_string(query: Mapping[str, Any] | None) -> str:
    return urlencode({**(query or {}), "prettyPrint": "false"}, doseq=True)
