"""GmailApi: runs one API call, from route, token, scope, arguments and quota to the partial response.

Single requests and the calls inside a batch take the same path. It does no I/O and no logging:
`request_handlers` does. The methods are in `methods`.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec

from mailsim.errors import SimulatorError
from mailsim.gmail import errors, field_mask, methods, parameters, quota
from mailsim.gmail.context import GmailCallContext, GmailMethod
from mailsim.gmail.errors import GmailError
from mailsim.gmail.gmail_mailbox import GmailMailbox
from mailsim.gmail.ids import make_ids
from mailsim.gmail.mailbox_settings import MailboxSettings
from mailsim.gmail.quota_usage import QuotaUsage
from mailsim.gmail.resumable import ResumableUpload, make_started_response
from mailsim.gmail.upload import UploadBody, check_media_type, split_upload
from mailsim.gmail.watches import WatchRegistry
from mailsim.google.clients import GoogleClient
from mailsim.google.context import GoogleContext
from mailsim.google.grants import GoogleAccessToken
from mailsim.google.pubsub import PubSub
from mailsim.google.service_accounts import is_service_account
from mailsim.mailbox import Mailbox
from mailsim.simulator import RawResponse

JSON = (("content-type", "application/json; charset=UTF-8"),)
_HTML = (("content-type", "text/html; charset=UTF-8"),)
_ALTS = frozenset({"", "json", "media", "proto"})
_FALSE = frozenset({"false", "0"})
_MAX_UPLOADS = 1000
_ROOTS = ("/gmail/v1/users/", "/upload/gmail/v1/users/", "/resumable/upload/gmail/v1/users/")


class GmailCall(NamedTuple):
    """A call. `path` is still percent-encoded; header names are in lower case.

    `concurrency` is the number of concurrent calls of the user, this one included. `metadata` is that of a
    completed resumable upload, whose content is `body`.
    """

    http: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""
    concurrency: int = 1
    scheme: str = "http"
    metadata: bytes | None = None


class MatchedMethod(NamedTuple):
    """The method of a request, with the user and the IDs in its path."""

    method: GmailMethod
    user: str
    ids: dict[str, str]
    upload: bool


@dataclass(slots=True)
class GmailCallOutcome:
    """The result of a call, for the log and the meters."""

    response: RawResponse
    endpoint: str = ""
    mailbox: str = ""
    units: int = 0
    quota_exceeded: bool = False


@dataclass
class GmailApi:
    google: GoogleContext
    pubsub: PubSub
    watches: WatchRegistry = field(init=False)
    quota_usage: QuotaUsage = field(init=False)
    gmail_mailboxes: dict[str, GmailMailbox] = field(default_factory=dict[str, GmailMailbox])
    hidden_until: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    attachment_ids: int = 0  # made so far; every one is new
    uploads: dict[str, ResumableUpload] = field(default_factory=dict[str, ResumableUpload])

    def __post_init__(self) -> None:
        sim = self.google.sim
        self.watches = WatchRegistry(
            self.pubsub,
            self.google.options,
            lambda mailbox: self.get_mailbox(mailbox).get_latest_history_id(),
        )
        self.quota_usage = QuotaUsage(self.google.options, sim.options.quota, sim.clock)

    def get_mailbox(self, mailbox: Mailbox) -> GmailMailbox:
        gmail_mailbox = self.gmail_mailboxes.get(mailbox.address)
        if gmail_mailbox is None or gmail_mailbox.mailbox is not mailbox:
            gmail_mailbox = self.gmail_mailboxes[mailbox.address] = self.make_view(mailbox, MailboxSettings())
        return gmail_mailbox

    def make_view(self, mailbox: Mailbox, settings: MailboxSettings) -> GmailMailbox:
        return GmailMailbox(
            mailbox=mailbox,
            ids=make_ids(
                mailbox.account.key, mailbox.initial_mail.count, mailbox.received_ms, mailbox.__len__
            ),
            options=self.google.options,
            now_ms=self.google.sim.clock.milliseconds,
            next_nonce=self._next_nonce,
            hidden_until=self.hidden_until,
            settings=settings,
        )

    def _next_nonce(self) -> int:
        self.attachment_ids += 1
        return self.attachment_ids

    def prefetch_messages(self, address: str, calls: Iterable[MatchedMethod | None]) -> None:
        """Prefetch the messages that the calls of a batch read."""
        mailbox = self.google.sim.registry.find_mailbox(address, "gmail")
        if mailbox is not None:
            reads = (
                matched
                for matched in calls
                if matched is not None and matched.method.id == "users.messages.get"
            )
            self.get_mailbox(mailbox).prefetch(matched.ids["id"] for matched in reads)

    def handle_call(self, call: GmailCall, matched: MatchedMethod | None) -> GmailCallOutcome:
        """Run a call; `matched` is the result of `match_method`."""
        outcome = GmailCallOutcome(RawResponse(500, b""))
        legacy, pretty = True, True
        try:
            pairs = parameters.parse_query(call.query)
            common = dict(pairs)
            legacy = common.get("$.xgafv") != "2"
            pretty = common.get("prettyPrint", "true").lower() not in _FALSE
            upload_id = common.get("upload_id", "")
            if matched is not None and matched.upload and upload_id in self.uploads and call.metadata is None:
                return self._continue_upload(call, matched, upload_id)
            if matched is None:
                outcome.response = make_unknown_path_response(call.path)
                return outcome
            outcome.endpoint = matched.method.endpoint
            _check_common(common)
            if matched.upload and common.get("uploadType") == "resumable" and call.metadata is None:
                outcome.response = self._start_upload(call, matched, pairs, common)
                return outcome
            value = self._run_method(call, matched, pairs, common, outcome)
            if value is None:
                outcome.response = self._make_empty_response(matched.method)
            else:
                outcome.response = RawResponse(200, encode_json(value, pretty=pretty), JSON)
        except GmailError as error:
            error_body = error.body
            outcome.response = RawResponse(
                error_body.code,
                encode_json(error_body.to_json(legacy=legacy), pretty=pretty),
                JSON + error_body.list_challenges(),
            )
        except SimulatorError as error:
            # An operation that the mailbox rejects is an invalid argument for Gmail.
            error_body = errors.bad_request(str(error)).body
            outcome.response = RawResponse(
                400, encode_json(error_body.to_json(legacy=legacy), pretty=pretty), JSON
            )
        return outcome

    def _run_method(
        self,
        call: GmailCall,
        matched: MatchedMethod,
        pairs: tuple[tuple[str, str], ...],
        common: dict[str, str],
        outcome: GmailCallOutcome,
    ) -> Any:
        method = matched.method
        token = self.find_token(call.headers, common)
        mailbox = self.google.sim.registry.find_mailbox(token.account.email, "gmail")
        outcome.mailbox = token.account.email
        client = self.find_client(token)
        self._check_account(token, mailbox, matched.user)
        assert mailbox is not None
        _check_scope(method, token)
        args = parameters.convert_arguments(pairs, method.parameters) | matched.ids
        _check_metadata(method, token, args, always=self.google.options.metadata_scope_wins)
        if common.get("alt") in {"media", "proto"}:
            raise errors.bad_request(f'Unsupported alt type "{common["alt"]}" for non byte stream request.')
        mask = field_mask.parse_mask(common["fields"], method.response_type) if common.get("fields") else {}
        upload = _read_upload(call) if matched.upload else None
        json_body = call.body if upload is None else upload.metadata
        body = parameters.parse_json_body(json_body, method.properties)
        self._charge_quota(method, token, client, call.concurrency, outcome)
        context = GmailCallContext(
            google=self.google,
            watches=self.watches,
            gmail_mailbox=self.get_mailbox(mailbox),
            token=token,
            client=client,
            args=args,
            body=body,
            upload=upload,
        )
        value = method.run(context)
        return field_mask.apply_mask(mask, value) if mask and value is not None else value

    def _start_upload(
        self,
        call: GmailCall,
        matched: MatchedMethod,
        pairs: tuple[tuple[str, str], ...],
        common: dict[str, str],
    ) -> RawResponse:
        """Start a resumable upload: check everything but the content, and return the URL for the pieces."""
        _check_scope(matched.method, self.find_token(call.headers, common))
        parameters.convert_arguments(pairs, matched.method.parameters)
        parameters.parse_json_body(call.body, matched.method.properties)
        media_type = call.headers.get("x-upload-content-type", "message/rfc822").partition(";")[0].strip()
        check_media_type(media_type.lower())
        token = self.google.sim.registry.new_bytes("upload", 48)
        upload_id = "ABPtcP" + urlsafe_b64encode(token).decode()
        authorization = call.headers.get("authorization", "")
        self.uploads[upload_id] = ResumableUpload(
            call.http, call.path, call.query, authorization, media_type.lower(), call.body
        )
        while len(self.uploads) > _MAX_UPLOADS:
            del self.uploads[next(iter(self.uploads))]
        host = call.headers.get("host", "gmail.googleapis.com")
        location = f"{call.scheme}://{host}{call.path}?{call.query}&upload_id={upload_id}"
        return make_started_response(location, upload_id)

    def _continue_upload(self, call: GmailCall, matched: MatchedMethod, upload_id: str) -> GmailCallOutcome:
        """Take a piece of a resumable upload, and run the method after the last one."""
        outcome = GmailCallOutcome(RawResponse(500, b""), matched.method.endpoint)
        upload = self.uploads[upload_id]
        if upload.response is not None:
            outcome.response = upload.response
        elif not upload.add_piece(call.headers.get("content-range", ""), call.body):
            outcome.response = upload.make_incomplete_response()
        else:
            headers = {"authorization": upload.authorization, "content-type": upload.media_type}
            whole = GmailCall(
                upload.http,
                upload.path,
                upload.query,
                headers,
                bytes(upload.content),
                call.concurrency,
                metadata=upload.metadata,
            )
            outcome = self.handle_call(whole, matched)
            upload.response = outcome.response
            upload.content.clear()
        return outcome

    def match_call(self, http: str, path: str, query: str) -> MatchedMethod | None:
        """Match a request; the pieces of a resumable upload belong to the method that started it."""
        if "upload_id=" not in query or not path.startswith(_ROOTS[1:]):
            return match_method(http, path)
        upload = self.uploads.get(dict(parse_qsl(query)).get("upload_id", ""))
        is_piece = upload is not None and upload.path == path and http in {"PUT", "POST"}
        return match_method(upload.http, path) if upload is not None and is_piece else None

    def find_token(self, headers: Mapping[str, str], common: Mapping[str, str]) -> GoogleAccessToken:
        """Find the access token of a call in its header or, as Google still allows, in its query."""
        scheme, _, value = headers.get("authorization", "").partition(" ")
        if not scheme:
            value = common.get("access_token", "") or common.get("oauth_token", "")
        elif scheme.lower() != "bearer":
            raise errors.bad_token()
        if not value.strip():
            raise errors.no_token()
        token = self.google.grants.find_access_token(value.strip(), self.google.now())
        if token is None:
            raise errors.bad_token()
        return token

    def find_client(self, token: GoogleAccessToken) -> GoogleClient:
        client = self.google.find_client(token.client_id)
        if client is None or client.problem == "deleted":
            raise errors.bad_token()
        if client.problem == "api_disabled":
            raise errors.api_disabled(client.project_number)
        if client.problem == "daily_limit":
            raise quota.daily_limit_exceeded()
        return client

    def _check_account(self, token: GoogleAccessToken, mailbox: Mailbox | None, user: str) -> None:
        email = token.account.email
        problem = self.google.grants.account_problems.get(token.account.sub)
        if problem == "domain_policy":
            raise errors.domain_policy()
        if is_service_account(email):
            raise errors.precondition()
        if mailbox is None or problem in {"mail_disabled", "suspended"}:
            raise errors.precondition("Mail service not enabled")
        if user not in {"me", email} and user.lower() != email.lower():
            if "@" not in user:
                raise errors.bad_request("Invalid user id")
            raise errors.forbidden(f"Delegation denied for {email}")

    def _charge_quota(
        self,
        method: GmailMethod,
        token: GoogleAccessToken,
        client: GoogleClient,
        concurrency: int,
        outcome: GmailCallOutcome,
    ) -> None:
        try:
            outcome.units = self.quota_usage.spend(method.id, token.account.sub, client, concurrency)
        except GmailError:
            outcome.quota_exceeded = True
            raise

    def _make_empty_response(self, method: GmailMethod) -> RawResponse:
        if method.id == "users.stop" and self.google.options.stop_status == 200:
            return RawResponse(200, b"{}", JSON)
        return RawResponse(204, b"", JSON)


def _read_upload(call: GmailCall) -> UploadBody:
    content_type = call.headers.get("content-type", "")
    if call.metadata is not None:
        return UploadBody(content_type, call.body, call.metadata)
    return split_upload(content_type, call.body)


def match_method(http: str, path: str) -> MatchedMethod | None:
    for root in _ROOTS:
        if path.startswith(root):
            user, *rest = path[len(root) :].split("/")
            if "%" in path:
                user, *rest = map(unquote, (user, *rest))
            upload = root[1] != "g"
            matched = methods.find_method(http, tuple(rest), upload=upload)
            if matched is None or not user or not all(rest):
                return None
            return MatchedMethod(matched[0], user, matched[1], upload)
    return None


def encode_json(value: Any, *, pretty: bool) -> bytes:
    encoded = msgspec.json.encode(value)
    return msgspec.json.format(encoded, indent=2) + b"\n" if pretty else encoded


def make_unknown_path_response(path: str) -> RawResponse:
    """Make the HTML page with which Google's front end answers unknown paths."""
    shown = path[:200].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    page = (
        "<!DOCTYPE html>\n<html lang=en>\n<meta charset=utf-8>\n<title>Error 404 (Not Found)!!1</title>\n"
        "<p><b>404.</b> <ins>That is an error.</ins>\n"
        f"<p>The requested URL <code>{shown}</code> was not found on this server.\n"
    )
    return RawResponse(404, page.encode(), _HTML)


def _check_common(common: Mapping[str, str]) -> None:
    """Check the common parameters, which Google's front end rejects before it checks the token."""
    alt = common.get("alt", common.get("$alt", ""))
    if alt not in _ALTS:
        raise errors.bad_request(f'Invalid value "{alt[:100]}" for query parameter alt.')
    if common.get("$.xgafv", "1") not in {"1", "2"}:
        raise errors.bad_request('Invalid value for query parameter "$.xgafv".')


def _check_scope(method: GmailMethod, token: GoogleAccessToken) -> None:
    if not method.scopes & token.scopes:
        raise errors.missing_scope(method.id, method.scopes)


def _check_metadata(
    method: GmailMethod, token: GoogleAccessToken, args: Mapping[str, Any], *, always: bool
) -> None:
    """Reject what the gmail.metadata scope forbids.

    Gmail applies these limits to every token with that scope, even if it also has wider scopes.
    """
    if methods.METADATA_SCOPE not in token.scopes:
        return
    if not always and method.scopes & token.scopes != frozenset({methods.METADATA_SCOPE}):
        return
    if "q" in args:
        raise errors.forbidden("Metadata scope does not support 'q' parameter")
    if "format" in method.parameters:
        message_format = args.get("format", "full")
        if message_format in {"full", "raw"}:
            raise errors.forbidden(f"Metadata scope doesn't allow format {message_format.upper()}")
