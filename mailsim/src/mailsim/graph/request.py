"""GraphRequest, GraphCall and GraphResponse, the types of route handlers, and readers of JSON bodies.

No HTTP: `api` converts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

import msgspec

from mailsim.entra.directory import EntraUser
from mailsim.entra.grants import EntraAccessToken
from mailsim.graph import odata
from mailsim.graph.context import GraphContext
from mailsim.graph.entity_types import EntityType
from mailsim.graph.errors import bad_request
from mailsim.graph.ids import GraphIds
from mailsim.graph.message_json import MessagePreferences
from mailsim.graph.unsimulated import BETA_PROPERTIES
from mailsim.mailbox import Mailbox
from mailsim.request_log import HttpExchange

JSON = "application/json;odata.metadata=minimal;odata.streaming=true;IEEE754Compatible=false;charset=utf-8"
UNREADABLE = (
    "Unable to read JSON request payload. Please ensure Content-Type header is set and payload is of valid "
    "JSON format."
)
_PREFERENCE = re.compile(r'([\w.-]+)\s*(?:=\s*("[^"]*"|[^,;\s]+))?')
_EXCESS_DIGITS = re.compile(r"(\.\d{6})\d+")  # more digits than Python reads
_SURROGATES = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class GraphResponse:
    """A response. `body` is a value to encode as JSON, bytes of `content_type`, or None for no body."""

    status: int = 200
    body: Any = None
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def list_headers(self) -> dict[str, str]:
        """Return all headers, names in lower case."""
        if self.body is None:
            return dict(self.headers)
        version = {"odata-version": "4.0"} if self.content_type == JSON else {}
        return {**self.headers, "content-type": self.content_type, **version}


@dataclass(frozen=True, slots=True)
class GraphRequest:
    """A request before routing and authentication."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes | None  # None: larger than Graph accepts
    base_url: str
    is_batch_part: bool = False
    concurrent: int = 1  # requests in flight with the same limit key, this one included
    version: str = "v1.0"


@dataclass(frozen=True, slots=True)
class GraphCall:
    """One routed and authenticated request, or one part of a batch."""

    graph: GraphContext
    exchange: HttpExchange
    method: str
    path: str  # as written by the client, without the version
    names: tuple[str, ...]  # the variable segments of the path
    raw: Mapping[str, str]  # query options
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    base_url: str
    access: EntraAccessToken
    user: EntraUser | None = None  # owner of the addressed mailbox
    basic: bool = False  # the token has only Mail.ReadBasic: hide the body
    version: str = "v1.0"

    @property
    def mailbox(self) -> Mailbox:
        assert self.user is not None
        return self.user.mailbox

    @property
    def ids(self) -> GraphIds:
        return self.graph.ids(self.mailbox)

    @property
    def full_path(self) -> str:
        return f"/{self.version}{self.path}"

    @property
    def url(self) -> str:
        return f"{self.base_url}{self.full_path}"

    @property
    def prefer(self) -> MessagePreferences:
        return _read_preferences(self.headers.get("prefer", ""))

    @property
    def preferences(self) -> Mapping[str, str]:
        return _parse_prefer_header(self.headers.get("prefer", ""))

    def preference_headers(self) -> dict[str, str]:
        """Return the Preference-Applied header."""
        preferences = self.preferences
        applied = [
            f'{name}="{preferences[name]}"'
            for name in ("outlook.body-content-type",)
            if preferences.get(name, "").lower() in {"text", "html"}
        ]
        if "outlook.allow-unsafe-html" in preferences:
            applied.append("outlook.allow-unsafe-html")
        return {"preference-applied": ", ".join(applied)} if applied else {}

    def query(self, kind: EntityType) -> odata.ODataQuery:
        if self.version == "beta" and kind.name in BETA_PROPERTIES:
            kind = replace(kind, unsimulated=kind.unsimulated | BETA_PROPERTIES[kind.name])
        return odata.parse_query(self.raw, kind)

    def context(self, tail: str) -> str:
        return f"{self.base_url}/{self.version}/$metadata#{tail}"

    def json(self) -> dict[str, Any]:
        """Return the body, which must be a JSON object."""
        try:
            decoded = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request(UNREADABLE) from error
        if not isinstance(decoded, dict):
            raise bad_request(UNREADABLE)
        return cast("dict[str, Any]", decoded)


@lru_cache(maxsize=64)
def _parse_prefer_header(header: str) -> Mapping[str, str]:
    return {name.lower(): value.strip('"') for name, value in _PREFERENCE.findall(header)}


@lru_cache(maxsize=64)
def _read_preferences(header: str) -> MessagePreferences:
    preferences = _parse_prefer_header(header)
    return MessagePreferences(
        immutable=preferences.get("idtype", "").lower() == "immutableid",
        text=preferences.get("outlook.body-content-type", "").lower() == "text",
        unsafe="outlook.allow-unsafe-html" in preferences,
    )


def encode_json(value: Any) -> bytes:
    """Encode JSON. Lone surrogates, which broken mail can contain, become question marks."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_replace_surrogates(value))


def _replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATES.sub("?", value)
    if isinstance(value, dict):
        return {name: _replace_surrogates(inner) for name, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [_replace_surrogates(inner) for inner in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def get_argument(body: Mapping[str, Any], name: str) -> Any:
    """Return a parameter of an action. Clients write its first character in either case."""
    return body.get(name, body.get(name[:1].upper() + name[1:]))


def get_text(body: Mapping[str, Any], name: str) -> str:
    """Return a string property, or "" if it is missing or null."""
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise bad_request(f"Cannot convert the property '{name}' to the expected type 'Edm.String'.")
    return value


def get_timestamp(body: Mapping[str, Any], name: str) -> float:
    """Return a DateTimeOffset property in seconds since 1970."""
    text = get_text(body, name)
    try:
        moment = datetime.fromisoformat(_EXCESS_DIGITS.sub(r"\1", text))
        if moment.tzinfo is not None:
            return moment.timestamp()
    except (ValueError, OverflowError):
        pass
    raise bad_request(f"Cannot convert the literal '{text[:50]}' to the expected type 'Edm.DateTimeOffset'.")
