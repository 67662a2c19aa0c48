"""Consents, authorization codes, refresh and access tokens, with every rule that ends them.

Pure state: times come in as seconds, errors go out as `Refused` with the body Google sends.
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
# What an administrator or Google may have decided about an account.
AccountProblem = Literal[
    "invalid_rapt", "admin_policy_enforced", "account_deleted", "domain_policy", "mail_disabled"
]
ACCOUNT_PROBLEMS: tuple[str, ...] = get_args(AccountProblem)
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class OAuthError(Exception):
    """The token endpoint's answer to a request it does not honour."""

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
    """One Google account: `sub` never changes, the address may."""

    sub: str
    email: str
    name: str


@dataclass(frozen=True, slots=True)
class AuthorizedRequest:
    """What an authorization request asked for and the user agreed to."""

    client: GoogleClient
    redirect_uri: str
    scopes: tuple[str, ...]
    offline: bool = False
    consented: bool = False  # `prompt=consent` forced the screen
    nonce: str = ""
    challenge: str = ""
    challenge_method: str = "plain"
    grant_seconds: int | None = None  # the user chose time-limited access


@dataclass(frozen=True, slots=True)
class AuthorizationCode:
    value: str
    account: GoogleAccount
    ask: AuthorizedRequest
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
    announced: bool  # whether `refresh_token_expires_in` tells of `expires`
    dead: bool = False


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
    asked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IssuedTokens:
    """What one call of the token endpoint gives out."""

    access: GoogleAccessToken
    refresh: GoogleRefreshToken | None
    nonce: str = ""


@dataclass(slots=True)
class GoogleGrants:
    """All grants of all accounts. `trouble` holds per account what an administrator or Google has decided."""

    random: Random
    codes: dict[str, AuthorizationCode] = field(default_factory=dict[str, AuthorizationCode])
    refreshes: dict[str, GoogleRefreshToken] = field(default_factory=dict[str, GoogleRefreshToken])
    accesses: dict[str, GoogleAccessToken] = field(default_factory=dict[str, GoogleAccessToken])
    live: dict[tuple[str, str], list[str]] = field(default_factory=dict[tuple[str, str], list[str]])
    consents: dict[tuple[str, str], frozenset[str]] = field(
        default_factory=dict[tuple[str, str], frozenset[str]]
    )
    offline: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    trouble: dict[str, str] = field(default_factory=dict[str, str])
    prune_at: int = 1000  # so many access tokens, and the expired ones are forgotten

    def issue_code(self, account: GoogleAccount, ask: AuthorizedRequest, now: float) -> AuthorizationCode:
        code = AuthorizationCode(self._value("4/0A", 69), account, ask, now)
        self.codes[code.value] = code
        return code

    def granted(self, account: GoogleAccount, project: str) -> frozenset[str]:
        return self.consents.get((account.sub, project), frozenset())

    def exchange(
        self, code_value: str, client: GoogleClient, form: Mapping[str, str], now: float
    ) -> IssuedTokens:
        code = self.codes.pop(code_value, None)
        if code is None or code.ask.client.id != client.id or now > code.issued + CODE_SECONDS:
            raise OAuthError(400, "invalid_grant", "Bad Request")
        ask = code.ask
        if form.get("redirect_uri", "") != ask.redirect_uri:
            raise OAuthError(400, "redirect_uri_mismatch", "Bad Request")
        _check_verifier(ask, form.get("code_verifier", ""))
        return self.grant(code.account, ask, now)

    def grant(self, account: GoogleAccount, ask: AuthorizedRequest, now: float) -> IssuedTokens:
        """Tokens for an account, as if the user had just agreed to `ask`."""
        project = (account.sub, ask.client.project)
        self.consents[project] = self.consents.get(project, frozenset()) | frozenset(ask.scopes)
        refresh = None
        # Only the first offline consent gives a refresh token, and those that `prompt=consent` forced.
        pair = (account.sub, ask.client.id)
        if ask.offline and (ask.consented or pair not in self.offline):
            self.offline.add(pair)
            refresh = self._issue_refresh(account, ask, now)
        access = self._issue_access(account, ask.client, ask.scopes, refresh.value if refresh else None, now)
        return IssuedTokens(access, refresh, ask.nonce)

    def refresh(self, value: str, client: GoogleClient, wanted: Iterable[str], now: float) -> IssuedTokens:
        token = self.refreshes.get(value)
        if token is None or token.client_id != client.id:
            raise OAuthError(400, "invalid_grant", "Bad Request")
        if token.dead or _over(token, now):
            raise OAuthError(400, "invalid_grant", "Token has been expired or revoked.")
        self._check_trouble(token.account)
        asked = tuple(wanted) or token.scopes
        if not set(asked) <= set(token.scopes):
            raise OAuthError(400, "invalid_scope", "Some requested scopes were invalid.")
        token = replace(token, used=now)
        self.refreshes[value] = token
        return IssuedTokens(self._issue_access(token.account, client, asked, value, now), None)

    def _check_trouble(self, account: GoogleAccount) -> None:
        match self.trouble.get(account.sub):
            case "invalid_rapt":
                description = "reauth related error (invalid_rapt)"
                raise OAuthError(400, "invalid_grant", description, "invalid_rapt")
            case "admin_policy_enforced":
                raise OAuthError(
                    400, "admin_policy_enforced", "Access blocked by the administrator's policy."
                )
            case "account_deleted":
                raise OAuthError(400, "invalid_grant", "Account has been deleted")
            case _:
                return

    def access(self, value: str, now: float) -> GoogleAccessToken | None:
        token = self.accesses.get(value)
        return token if token is not None and now < token.expires else None

    def revoke(self, value: str) -> None:
        """Ends the user's whole grant to the project, whichever of its tokens is shown."""
        access, refresh = self.accesses.get(value), self.refreshes.get(value)
        if access is not None:
            self.end_grant(access.account.sub, access.project)
        elif refresh is not None and not refresh.dead:
            self.end_grant(refresh.account.sub, refresh.project)
        else:
            raise OAuthError(400, "invalid_token", "Token expired or revoked")

    def end_grant(self, sub: str, project: str | None = None) -> int:
        """Kills every token of an account, of one project or of all; says how many refresh tokens died."""
        for key in [key for key in self.consents if key[0] == sub and project in {None, key[1]}]:
            del self.consents[key]
        self.offline = {pair for pair in self.offline if pair[0] != sub}
        for value, access in list(self.accesses.items()):
            if access.account.sub == sub and project in {None, access.project}:
                del self.accesses[value]
        return self._kill(
            token
            for token in self.refreshes.values()
            if token.account.sub == sub and project in {None, token.project}
        )

    def change_password(self, sub: str) -> int:
        """A new password ends the refresh tokens that may read mail, and only those."""
        return self._kill(
            token for token in self.refreshes.values() if token.account.sub == sub and _reads_mail(token)
        )

    def expire_access(self, sub: str) -> int:
        values = [value for value, token in self.accesses.items() if token.account.sub == sub]
        for value in values:
            del self.accesses[value]
        return len(values)

    def _kill(self, tokens: Iterable[GoogleRefreshToken]) -> int:
        doomed = [token for token in tokens if not token.dead]
        for token in doomed:
            self.refreshes[token.value] = replace(token, dead=True)
            self.live[token.account.sub, token.client_id].remove(token.value)
        return len(doomed)

    def _issue_refresh(
        self, account: GoogleAccount, ask: AuthorizedRequest, now: float
    ) -> GoogleRefreshToken:
        expires, announced = None, False
        if ask.grant_seconds is not None:
            expires, announced = now + ask.grant_seconds, True
        elif ask.client.testing and not set(ask.scopes) <= IDENTITY_SCOPES:
            expires = now + TESTING_SECONDS
        token = GoogleRefreshToken(
            value=self._value("1//0g", 98),
            account=account,
            client_id=ask.client.id,
            project=ask.client.project,
            scopes=ask.scopes,
            issued=now,
            used=now,
            expires=expires,
            announced=announced,
        )
        self.refreshes[token.value] = token
        living = self.live.setdefault((account.sub, ask.client.id), [])
        living.append(token.value)
        self._kill([self.refreshes[value] for value in living[:-MAX_REFRESH_TOKENS]])
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
            value=self._value("ya29.a0", 190),
            account=account,
            client_id=client.id,
            project=client.project,
            scopes=frozenset(scopes),
            issued=now,
            expires=now + ACCESS_SECONDS,
            refresh=refresh,
            asked=scopes,
        )
        self.accesses[token.value] = token
        if len(self.accesses) >= self.prune_at:
            self.accesses = {value: each for value, each in self.accesses.items() if now < each.expires}
            self.prune_at = 2 * len(self.accesses) + 1000
        return token

    def _value(self, prefix: str, length: int) -> str:
        return prefix + "".join(self.random.choices(_ALPHABET, k=length))


def _over(token: GoogleRefreshToken, now: float) -> bool:
    return (token.expires is not None and now >= token.expires) or now >= token.used + UNUSED_SECONDS


def _reads_mail(token: GoogleRefreshToken) -> bool:
    return any("mail" in scope and scope not in IDENTITY_SCOPES for scope in token.scopes)


def _check_verifier(ask: AuthorizedRequest, verifier: str) -> None:
    if not ask.challenge:
        return
    if not verifier:
        raise OAuthError(400, "invalid_grant", "Missing code verifier.")
    shown = verifier
    if ask.challenge_method == "S256":
        digest = hashlib.sha256(verifier.encode()).digest()
        shown = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    if not secrets.compare_digest(shown.encode(), ask.challenge.encode()):
        raise OAuthError(400, "invalid_grant", "Invalid code verifier.")
