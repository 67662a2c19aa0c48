"""Google's consents, codes, refresh tokens and access tokens, with all rules that end them.

Pure state: the caller passes the time in seconds. Errors are `OAuthError` with Google's response body. The
endpoints are in `oauth` and `consent_page`.
"""

import base64
import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal, get_args

from mailsim.google.clients import GoogleClient

ACCESS_SECONDS = 3599
CODE_SECONDS = 600
DAY = 86_400.0
TESTING_SECONDS = 7 * DAY
UNUSED_SECONDS = 183 * DAY
MAX_REFRESH_TOKENS = 100
IDENTITY_SCOPES = frozenset(
    {
        "openid",
        "email",
        "profile",
        "https://www.googleapis.com/auth/userinfo.email",
        "https://www.googleapis.com/auth/userinfo.profile",
    }
)
_LONG_NAMES = {
    "email": "https://www.googleapis.com/auth/userinfo.email",
    "profile": "https://www.googleapis.com/auth/userinfo.profile",
}
# States of an account that make requests fail, set by an administrator or by Google.
AccountProblem = Literal[
    "invalid_rapt", "admin_policy_enforced", "account_deleted", "domain_policy", "mail_disabled", "suspended"
]
ACCOUNT_PROBLEMS: tuple[str, ...] = get_args(AccountProblem)
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def parse_scopes(text: str) -> tuple[str, ...]:
    """Return the scopes of a request as Google grants them: by their long names, identity with `openid`."""
    scopes = dict.fromkeys(_LONG_NAMES.get(scope, scope) for scope in text.split())
    if scopes.keys() & IDENTITY_SCOPES:
        scopes.setdefault("openid")
    return tuple(scopes)


class OAuthError(Exception):
    """An error response of the token endpoint."""

    def __init__(self, status: int, error: str, description: str = "", subtype: str = "") -> None:
        super().__init__(error)
        self.status = status
        self.body: dict[str, str] = {"error": error}
        if description:
            self.body["error_description"] = description
        if subtype:
            self.body["error_subtype"] = subtype


@dataclass(frozen=True, slots=True)
class GoogleAccount:
    """A Google account. `sub` never changes; the address may."""

    sub: str
    email: str
    name: str


@dataclass(frozen=True, slots=True)
class AuthorizedRequest:
    """What an authorization request asked for and the user granted."""

    client: GoogleClient
    redirect_uri: str
    scopes: tuple[str, ...]
    offline: bool = False
    consent_forced: bool = False  # by `prompt=consent`
    nonce: str = ""
    challenge: str = ""
    challenge_method: str = "plain"
    grant_seconds: int | None = None  # the user chose time-limited access


@dataclass(frozen=True, slots=True)
class AuthorizationCode:
    value: str
    account: GoogleAccount
    authorized: AuthorizedRequest
    issued: float


@dataclass(frozen=True, slots=True)
class GoogleRefreshToken:
    value: str
    account: GoogleAccount
    client_id: str
    project: str
    scopes: tuple[str, ...]
    issued: float
    used: float
    expires: float | None
    expiry_announced: bool  # whether the response contains `refresh_token_expires_in`
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class GoogleAccessToken:
    value: str
    account: GoogleAccount
    client_id: str
    project: str
    scopes: frozenset[str]
    issued: float
    expires: float
    refresh: str | None = None
    requested_scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IssuedTokens:
    """The tokens that one call of the token endpoint issues."""

    access: GoogleAccessToken
    refresh: GoogleRefreshToken | None
    nonce: str = ""


@dataclass(slots=True)
class GoogleGrants:
    """All grants of all accounts.

    `account_problems` maps an account's `sub` to its AccountProblem.
    """

    random: Random
    codes: dict[str, AuthorizationCode] = field(default_factory=dict[str, AuthorizationCode])
    refresh_tokens: dict[str, GoogleRefreshToken] = field(default_factory=dict[str, GoogleRefreshToken])
    access_tokens: dict[str, GoogleAccessToken] = field(default_factory=dict[str, GoogleAccessToken])
    live_refresh_tokens: dict[tuple[str, str], list[str]] = field(
        default_factory=dict[tuple[str, str], list[str]]
    )
    consents: dict[tuple[str, str], frozenset[str]] = field(
        default_factory=dict[tuple[str, str], frozenset[str]]
    )
    offline_grants: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    account_problems: dict[str, str] = field(default_factory=dict[str, str])
    prune_at: int = 1000  # at this many access tokens, expired ones are removed

    def issue_code(
        self, account: GoogleAccount, authorized: AuthorizedRequest, now: float
    ) -> AuthorizationCode:
        code = AuthorizationCode(self._make_value("4/0A", 69), account, authorized, now)
        self.codes[code.value] = code
        return code

    def get_granted_scopes(self, account: GoogleAccount, project: str) -> frozenset[str]:
        return self.consents.get((account.sub, project), frozenset())

    def exchange_code(
        self, code_value: str, client: GoogleClient, form: Mapping[str, str], now: float
    ) -> IssuedTokens:
        code = self.codes.pop(code_value, None)
        if code is None or code.authorized.client.id != client.id or now > code.issued + CODE_SECONDS:
            raise OAuthError(400, "invalid_grant", "Bad Request")
        authorized = code.authorized
        if form.get("redirect_uri", "") != authorized.redirect_uri:
            raise OAuthError(400, "redirect_uri_mismatch", "Bad Request")
        _check_verifier(authorized, form.get("code_verifier", ""))
        return self.grant_tokens(code.account, authorized, now)

    def grant_tokens(self, account: GoogleAccount, authorized: AuthorizedRequest, now: float) -> IssuedTokens:
        """Issue tokens for an account whose user granted the request."""
        project = (account.sub, authorized.client.project)
        self.consents[project] = self.consents.get(project, frozenset()) | frozenset(authorized.scopes)
        refresh = None
        # Google issues a refresh token only for the first offline consent and after `prompt=consent`.
        pair = (account.sub, authorized.client.id)
        if authorized.offline and (authorized.consent_forced or pair not in self.offline_grants):
            self.offline_grants.add(pair)
            refresh = self._issue_refresh(account, authorized, now)
        access = self._issue_access(
            account, authorized.client, authorized.scopes, refresh.value if refresh else None, now
        )
        return IssuedTokens(access, refresh, authorized.nonce)

    def refresh_access(
        self, value: str, client: GoogleClient, requested_scopes: Iterable[str], now: float
    ) -> IssuedTokens:
        """Issue an access token for everything that was consented to, also if the request names less."""
        token = self.refresh_tokens.get(value)
        if token is None or token.client_id != client.id:
            raise OAuthError(400, "invalid_grant", "Bad Request")
        if token.revoked or _is_expired(token, now):
            raise OAuthError(400, "invalid_grant", "Token has been expired or revoked.")
        self._check_account(token.account)
        if not set(requested_scopes) <= set(token.scopes):
            raise OAuthError(400, "invalid_scope", "Some requested scopes were invalid.")
        token = replace(token, used=now)
        self.refresh_tokens[value] = token
        return IssuedTokens(self._issue_access(token.account, client, token.scopes, value, now), None)

    def grant_delegated(
        self, account: GoogleAccount, client: GoogleClient, scopes: tuple[str, ...], now: float
    ) -> IssuedTokens:
        """Issue an access token to a service account, for itself or a user of a delegating Workspace."""
        self._check_account(account)
        return IssuedTokens(self._issue_access(account, client, scopes, None, now), None)

    def _check_account(self, account: GoogleAccount) -> None:
        match self.account_problems.get(account.sub):
            case "invalid_rapt":
                description = "reauth related error (invalid_rapt)"
                raise OAuthError(400, "invalid_grant", description, "invalid_rapt")
            case "admin_policy_enforced":
                raise OAuthError(
                    400, "admin_policy_enforced", "Access blocked by the administrator's policy."
                )
            case "account_deleted":
                raise OAuthError(400, "invalid_grant", "Account has been deleted")
            case "suspended":
                raise OAuthError(400, "invalid_grant", "Bad Request")
            case _:
                return

    def find_access_token(self, value: str, now: float) -> GoogleAccessToken | None:
        token = self.access_tokens.get(value)
        return token if token is not None and now < token.expires else None

    def revoke_token(self, value: str) -> None:
        """Revoke a token. This ends the user's whole grant to the project."""
        access, refresh = self.access_tokens.get(value), self.refresh_tokens.get(value)
        if access is not None:
            self.end_grant(access.account.sub, access.project)
        elif refresh is not None and not refresh.revoked:
            self.end_grant(refresh.account.sub, refresh.project)
        else:
            raise OAuthError(400, "invalid_token", "Token expired or revoked")

    def end_grant(self, sub: str, project: str | None = None) -> int:
        """Revoke all tokens of an account for one project or for all.

        Return the number of refresh tokens.
        """
        for key in [key for key in self.consents if key[0] == sub and project in {None, key[1]}]:
            del self.consents[key]
        self.offline_grants = {pair for pair in self.offline_grants if pair[0] != sub}
        for value, access in list(self.access_tokens.items()):
            if access.account.sub == sub and project in {None, access.project}:
                del self.access_tokens[value]
        return self._revoke_refresh_tokens(
            token
            for token in self.refresh_tokens.values()
            if token.account.sub == sub and project in {None, token.project}
        )

    def change_password(self, sub: str) -> int:
        """Revoke the refresh tokens with mail scopes, as Google does after a password change."""
        return self._revoke_refresh_tokens(
            token for token in self.refresh_tokens.values() if token.account.sub == sub and _reads_mail(token)
        )

    def expire_access_tokens(self, sub: str) -> int:
        values = [value for value, token in self.access_tokens.items() if token.account.sub == sub]
        for value in values:
            del self.access_tokens[value]
        return len(values)

    def _revoke_refresh_tokens(self, tokens: Iterable[GoogleRefreshToken]) -> int:
        live_tokens = [token for token in tokens if not token.revoked]
        for token in live_tokens:
            self.refresh_tokens[token.value] = replace(token, revoked=True)
            self.live_refresh_tokens[token.account.sub, token.client_id].remove(token.value)
        return len(live_tokens)

    def _issue_refresh(
        self, account: GoogleAccount, authorized: AuthorizedRequest, now: float
    ) -> GoogleRefreshToken:
        expires, announced = None, False
        if authorized.grant_seconds is not None:
            expires, announced = now + authorized.grant_seconds, True
        elif authorized.client.testing and not set(authorized.scopes) <= IDENTITY_SCOPES:
            expires = now + TESTING_SECONDS
        token = GoogleRefreshToken(
            value=self._make_value("1//0g", 98),
            account=account,
            client_id=authorized.client.id,
            project=authorized.client.project,
            scopes=authorized.scopes,
            issued=now,
            used=now,
            expires=expires,
            expiry_announced=announced,
        )
        self.refresh_tokens[token.value] = token
        live_values = self.live_refresh_tokens.setdefault((account.sub, authorized.client.id), [])
        live_values.append(token.value)
        self._revoke_refresh_tokens(
            [self.refresh_tokens[value] for value in live_values[:-MAX_REFRESH_TOKENS]]
        )
        return token

    def _issue_access(
        self,
        account: GoogleAccount,
        client: GoogleClient,
        scopes: tuple[str, ...],
        refresh: str | None,
        now: float,
    ) -> GoogleAccessToken:
        token = GoogleAccessToken(
            value=self._make_value("ya29.a0", 190),
            account=account,
            client_id=client.id,
            project=client.project,
            scopes=frozenset(scopes),
            issued=now,
            expires=now + ACCESS_SECONDS,
            refresh=refresh,
            requested_scopes=scopes,
        )
        self.access_tokens[token.value] = token
        if len(self.access_tokens) >= self.prune_at:
            self.access_tokens = {
                value: token for value, token in self.access_tokens.items() if now < token.expires
            }
            self.prune_at = 2 * len(self.access_tokens) + 1000
        return token

    def _make_value(self, prefix: str, length: int) -> str:
        return prefix + "".join(self.random.choices(_ALPHABET, k=length))


def _is_expired(token: GoogleRefreshToken, now: float) -> bool:
    return (token.expires is not None and now >= token.expires) or now >= token.used + UNUSED_SECONDS


def _reads_mail(token: GoogleRefreshToken) -> bool:
    return any("mail" in scope and scope not in IDENTITY_SCOPES for scope in token.scopes)


def _check_verifier(authorized: AuthorizedRequest, verifier: str) -> None:
    if not authorized.challenge:
        return
    if not verifier:
        raise OAuthError(400, "invalid_grant", "Missing code verifier.")
    shown = verifier
    if authorized.challenge_method == "S256":
        digest = hashlib.sha256(verifier.encode()).digest()
        shown = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    if not secrets.compare_digest(shown.encode(), authorized.challenge.encode()):
        raise OAuthError(400, "invalid_grant", "Invalid code verifier.")
