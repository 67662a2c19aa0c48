"""One call of the Gmail API from request to answer: route, token, scope, quota, arguments, method,
partial response.

The same path serves requests of their own and the calls inside a batch. It reads no socket and writes no log.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from mailsim.errors import SimulatorError
from mailsim.gmail import errors, field_mask, methods, parameters, quota
from mailsim.gmail.context import GmailCallContext, GmailMethod
from mailsim.gmail.errors import GmailError
from mailsim.gmail.gmail_mailbox import GmailMailbox
from mailsim.gmail.ids import make_ids
from mailsim.gmail.quota_usage import QuotaUsage
from mailsim.gmail.watches import WatchRegistry
from mailsim.google.clients import GoogleClient
from mailsim.google.context import GoogleContext
from mailsim.google.grants import GoogleAccessToken
from mailsim.google.pubsub import PubSub
from mailsim.mailbox import Mailbox
from mailsim.simulator import RawResponse

JSON = (("content-type", "application/json; charset=UTF-8"),)
_HTML = (("content-type", "text/html; charset=UTF-8"),)
_ALTS = frozenset({"", "json", "media", "proto"})
_FALSE = frozenset({"false", "0"})
_ROOTS = ("/gmail/v1/users/", "/upload/gmail/v1/users/", "/resumable/upload/gmail/v1/users/")


class GmailCall(NamedTuple):
    """`path` is percent-encoded as it came; header names are in lower case. `width` is how many calls of this
    user run at the same time, this one included.
    """

    http: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""
    width: int = 1


class MatchedMethod(NamedTuple):
    method: GmailMethod
    user: str
    ids: dict[str, str]
    upload: bool


@dataclass(slots=True)
class GmailCallOutcome:
    """What became of a call, for the log and the meters."""

    reply: RawResponse
    endpoint: str = ""
    mailbox: str = ""
    units: int = 0
    rejected: bool = False


@dataclass
class GmailApi:
    realm: GoogleContext
    pubsub: PubSub
    watches: WatchRegistry = field(init=False)
    spending: QuotaUsage = field(init=False)
    boxes: dict[str, GmailMailbox] = field(default_factory=dict[str, GmailMailbox])
    hidden_until: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    turn: "count[int]" = field(default_factory=count)

    def __post_init__(self) -> None:
        sim = self.realm.sim
        self.watches = WatchRegistry(
            self.pubsub, self.realm.options, lambda mailbox: self.box(mailbox).latest()
        )
        self.spending = QuotaUsage(self.realm.options, sim.options.quota, sim.clock)

    def box(self, mailbox: Mailbox) -> GmailMailbox:
        known = self.boxes.get(mailbox.address)
        if known is None or known.mailbox is not mailbox:
            known = GmailMailbox(
                mailbox=mailbox,
                ids=make_ids(mailbox.account.key, mailbox.stock.count),
                options=self.realm.options,
                now_ms=self.realm.sim.clock.milliseconds,
                turn=self.turn.__next__,
                hidden_until=self.hidden_until,
            )
            self.boxes[mailbox.address] = known
        return known

    def read_ahead(self, address: str, calls: Iterable[MatchedMethod | None]) -> None:
        """For the calls of a batch: the letters that it will ask for."""
        mailbox = self.realm.sim.registry.find_mailbox(address, "gmail")
        if mailbox is not None:
            reads = (
                found for found in calls if found is not None and found.method.id == "users.messages.get"
            )
            self.box(mailbox).read_ahead(found.ids["id"] for found in reads)

    def answer(self, call: GmailCall, found: MatchedMethod | None) -> GmailCallOutcome:
        """`found`: what `find_method` says of the call."""
        outcome = GmailCallOutcome(RawResponse(500, b""))
        legacy, pretty = True, True
        try:
            pairs = parameters.pairs_of(call.query)
            common = dict(pairs)
            legacy = common.get("$.xgafv") != "2"
            pretty = common.get("prettyPrint", "true").lower() not in _FALSE
            if found is None:
                outcome.reply = unknown_path(call.path)
                return outcome
            outcome.endpoint = found.method.endpoint
            _check_common(common)
            value = self._run(call, found, pairs, common, outcome)
            if value is None:
                outcome.reply = self._empty(found.method)
            else:
                outcome.reply = RawResponse(200, encode(value, pretty=pretty), JSON)
        except GmailError as refused:
            fault = refused.fault
            outcome.reply = RawResponse(fault.code, encode(fault.body(legacy=legacy), pretty=pretty), JSON)
        except SimulatorError as error:
            # The mailbox has the last word on what it can do; Gmail calls that an invalid argument.
            fault = errors.bad_request(str(error)).fault
            outcome.reply = RawResponse(400, encode(fault.body(legacy=legacy), pretty=pretty), JSON)
        return outcome

    def _run(
        self,
        call: GmailCall,
        found: MatchedMethod,
        pairs: tuple[tuple[str, str], ...],
        common: dict[str, str],
        outcome: GmailCallOutcome,
    ) -> Any:
        method = found.method
        token = self.token_of(call.headers, common)
        mailbox = self.realm.sim.registry.find_mailbox(token.account.email, "gmail")
        outcome.mailbox = token.account.email
        client = self._client(token)
        self._check_account(token, mailbox, found.user)
        assert mailbox is not None
        _check_scope(method, token)
        args = parameters.arguments(pairs, method.parameters) | found.ids
        _check_metadata(method, token, args, always=self.realm.options.metadata_scope_wins)
        if common.get("alt") in {"media", "proto"}:
            raise errors.bad_request(f'Unsupported alt type "{common["alt"]}" for non byte stream request.')
        mask = field_mask.mask_for(common["fields"], method.answer) if common.get("fields") else {}
        body: dict[str, Any] = {} if found.upload else parameters.json_body(call.body, method.properties)
        self._spend(method, token, client, call.width, outcome)
        context = GmailCallContext(
            realm=self.realm,
            watches=self.watches,
            box=self.box(mailbox),
            token=token,
            client=client,
            args=args,
            body=body,
            raw=call.body,
            content_type=call.headers.get("content-type", ""),
            upload=found.upload,
        )
        value = method.run(context)
        return field_mask.apply(mask, value) if mask and value is not None else value

    def token_of(self, headers: Mapping[str, str], common: Mapping[str, str]) -> GoogleAccessToken:
        """The access token of a call, from the header or, as Google still allows, from the query."""
        scheme, _, value = headers.get("authorization", "").partition(" ")
        if not scheme:
            value = common.get("access_token", "") or common.get("oauth_token", "")
        elif scheme.lower() != "bearer":
            raise errors.bad_token()
        if not value.strip():
            raise errors.no_token()
        token = self.realm.grants.access(value.strip(), self.realm.now())
        if token is None:
            raise errors.bad_token()
        return token

    def _client(self, token: GoogleAccessToken) -> GoogleClient:
        client = self.realm.client(token.client_id)
        if client is None or client.trouble == "deleted":
            raise errors.bad_token()
        if client.trouble == "api_disabled":
            raise errors.api_disabled(client.project_number)
        if client.trouble == "daily_limit":
            raise quota.daily_limit()
        return client

    def _check_account(self, token: GoogleAccessToken, mailbox: Mailbox | None, user: str) -> None:
        email = token.account.email
        trouble = self.realm.grants.trouble.get(token.account.sub)
        if trouble == "domain_policy":
            raise errors.domain_policy()
        if mailbox is None or trouble == "mail_disabled":
            raise errors.precondition("Mail service not enabled")
        if user not in {"me", email} and user.lower() != email.lower():
            if "@" not in user:
                raise errors.bad_request("Invalid user id")
            raise errors.forbidden(f"Delegation denied for {email}")

    def _spend(
        self,
        method: GmailMethod,
        token: GoogleAccessToken,
        client: GoogleClient,
        width: int,
        outcome: GmailCallOutcome,
    ) -> None:
        try:
            outcome.units = self.spending.spend(method.id, token.account.sub, client, width)
        except GmailError:
            outcome.rejected = True
            raise

    def _empty(self, method: GmailMethod) -> RawResponse:
        if method.id == "users.stop" and self.realm.options.stop_status == 200:
            return RawResponse(200, b"{}", JSON)
        return RawResponse(204, b"", JSON)


def find_method(http: str, path: str) -> MatchedMethod | None:
    for root in _ROOTS:
        if path.startswith(root):
            user, *rest = path[len(root) :].split("/")
            if "%" in path:
                user, *rest = map(unquote, (user, *rest))
            upload = root[1] != "g"
            found = methods.find(http, tuple(rest), upload=upload)
            if found is None or not user or not all(rest):
                return None
            return MatchedMethod(found[0], user, found[1], upload)
    return None


def encode(value: Any, *, pretty: bool) -> bytes:
    encoded = msgspec.json.encode(value)
    return msgspec.json.format(encoded, indent=2) + b"\n" if pretty else encoded


def unknown_path(path: str) -> RawResponse:
    """Google's front end answers paths that no API has with a page."""
    shown = path[:200].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    page = (
        "<!DOCTYPE html>\n<html lang=en>\n<meta charset=utf-8>\n<title>Error 404 (Not Found)!!1</title>\n"
        "<p><b>404.</b> <ins>That is an error.</ins>\n"
        f"<p>The requested URL <code>{shown}</code> was not found on this server.\n"
    )
    return RawResponse(404, page.encode(), _HTML)


def _check_common(common: Mapping[str, str]) -> None:
    """What Google's front end refuses before it looks at the token."""
    alt = common.get("alt", common.get("$alt", ""))
    if alt not in _ALTS:
        raise errors.bad_request(f'Invalid value "{alt[:100]}" for query parameter alt.')
    if common.get("$.xgafv", "1") not in {"1", "2"}:
        raise errors.bad_request('Invalid value for query parameter "$.xgafv".')


def _check_scope(method: GmailMethod, token: GoogleAccessToken) -> None:
    if not method.scopes & token.scopes:
        raise errors.missing_scope(method.id)


def _check_metadata(
    method: GmailMethod, token: GoogleAccessToken, args: Mapping[str, Any], *, always: bool
) -> None:
    """The narrow scope spoils the wider ones beside it: Gmail takes a token with gmail.metadata at that
    word.
    """
    if methods.METADATA not in token.scopes:
        return
    if not always and method.scopes & token.scopes != frozenset({methods.METADATA}):
        return
    if "q" in args:
        raise errors.forbidden("Metadata scope does not support 'q' parameter")
    if "format" in method.parameters:
        form = args.get("format", "full")
        if form in {"full", "raw"}:
            raise errors.forbidden(f"Metadata scope doesn't allow format {form.upper()}")
