"""OAuth at Google: consent URL, code exchange, token refresh, delegated tokens, revocation."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

import msgspec

from postroom.errors import InvalidGrant, LoginRejected, ProviderServerError
from postroom.model import (
    Account,
    AppCredential,
    ContentPolicy,
    Grant,
    Login,
    RevocationResult,
    Secret,
    Tokens,
)
from postroom.providers import oauth
from postroom.providers.gmail import service_account
from postroom.providers.transport import HttpRequest, Transport

_PREFIX: Final = "https://www.googleapis.com/auth/"
_IDENTITY: Final = frozenset({"openid", "email"})
_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
# A delegation lists scopes by their long names.
_DELEGATED_IDENTITY: Final = frozenset({"openid", _PREFIX + "userinfo.email"})
_SAME: Final = {_PREFIX + "userinfo.email": "email"}  # Google returns the long name of this scope


class _TokenInfo(msgspec.Struct):
    sub: str
    email: str


@dataclass(frozen=True)
class GoogleLogin:
    transport: Transport
    client_id: str
    client_secret: Secret
    accounts_url: str
    token_url: str

    def scopes(self, policy: ContentPolicy) -> frozenset[str]:
        mail = "gmail.metadata" if policy is ContentPolicy.METADATA else "gmail.readonly"
        return _IDENTITY | {_PREFIX + mail}

    def authorization_url(self, login: Login) -> str:
        query = {
            "client_id": self.client_id,
            "redirect_uri": login.redirect_uri,
            "response_type": "code",
            "scope": " ".join(sorted(self.scopes(login.policy))),
            "access_type": "offline",
            # Otherwise a second consent returns no refresh token.
            "prompt": "consent",
            "state": login.state.reveal(),
            "code_challenge": oauth.pkce_challenge(login.verifier),
            "code_challenge_method": "S256",
        } | ({"login_hint": login.login_hint} if login.login_hint else {})
        return f"{self.accounts_url}/o/oauth2/v2/auth?{urlencode(query)}"

    async def exchange(self, login: Login, code: Secret) -> Grant:
        try:
            response = await self._token(
                grant_type="authorization_code",
                code=code.reveal(),
                redirect_uri=login.redirect_uri,
                code_verifier=login.verifier.reveal(),
            )
        except InvalidGrant as error:
            raise LoginRejected(
                "Google rejected this sign-in: its code was already used or has expired. Start again."
            ) from error
        if response.id_token is None or response.refresh_token is None:
            raise LoginRejected(
                "Google did not grant offline access. Start again and allow all requested permissions."
            )
        claims = oauth.read_claims(response.id_token, audience=self.client_id)
        address = str(claims.get("email", "")).lower()
        wanted = self.scopes(login.policy)
        granted = frozenset(_SAME.get(scope, scope) for scope in response.scope.split())
        return Grant(
            Account(account_id=str(claims["sub"]), provider_user_id=address, address=address),
            response.tokens,
            granted,
            wanted - granted,
        )

    async def refresh(self, refresh: Secret, scopes: frozenset[str]) -> Tokens:
        del scopes  # without them, Google returns a token for everything that was consented to
        return (await self._token(grant_type="refresh_token", refresh_token=refresh.reveal())).tokens

    def app_scopes(self, policy: ContentPolicy) -> frozenset[str]:
        return self.scopes(policy) - _IDENTITY

    async def app_tokens(
        self,
        credential: AppCredential,
        user_id: str,
        scopes: frozenset[str],
        *,
        replacing: Secret | None = None,
    ) -> Tokens:
        """Impersonate a user of a Workspace that delegated these scopes to the service account."""
        del replacing  # every token is a new one
        form = {
            "grant_type": _JWT_BEARER,
            "assertion": service_account.sign_assertion(
                credential, subject=user_id, scopes=scopes, audience=f"{self.token_url}/token"
            ),
        }
        try:
            response = await self.transport.send(
                HttpRequest("POST", f"{self.token_url}/token", form=form, repeatable=True)
            )
        except InvalidGrant as error:
            raise InvalidGrant(
                "Google does not let the service account open this mailbox: the address is unknown or its"
                " user is suspended. Check it in the admin console, then connect the mailbox again."
            ) from error
        return oauth.read_tokens(response).tokens

    async def app_account(self, credential: AppCredential, address: str) -> Account:
        """The account by its immutable ID, as a sign-in of its owner identifies it too."""
        tokens = await self.app_tokens(credential, address, _DELEGATED_IDENTITY)
        form = {"access_token": tokens.access.reveal()}
        response = await self.transport.send(
            HttpRequest("POST", f"{self.token_url}/tokeninfo", form=form, repeatable=True)
        )
        try:
            user = msgspec.convert(response.json(), _TokenInfo)
        except msgspec.ValidationError as error:
            raise ProviderServerError("Google's token endpoint did not identify the user.") from error
        found = user.email.lower()
        return Account(account_id=user.sub, provider_user_id=found, address=found)

    async def revoke(self, token: Secret) -> RevocationResult:
        """Revoke a token. Google rejects one that is revoked already, which is no error here."""
        try:
            await self.transport.send(
                HttpRequest("POST", f"{self.token_url}/revoke", form={"token": token.reveal()})
            )
        except LoginRejected:
            return RevocationResult.ALREADY_INVALID
        return RevocationResult.REVOKED

    async def _token(self, **form: str) -> oauth.TokenResponse:
        client = {"client_id": self.client_id, "client_secret": self.client_secret.reveal()}
        # A code can be exchanged only once, even if the response is lost; a refresh can be repeated.
        repeatable = form["grant_type"] == "refresh_token"
        response = await self.transport.send(
            HttpRequest("POST", f"{self.token_url}/token", form=form | client, repeatable=repeatable)
        )
        return oauth.read_tokens(response)
