"""Service accounts, their keys, and the domain-wide delegations that Workspace administrators gave them.

Keys are issued as Google's JSON key files. `jwt_bearer` exchanges what they sign for access tokens.
"""

from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from mailsim.errors import InvalidRequest, NotFound
from mailsim.google.clients import GoogleClient
from mailsim.hashing import stable_hash
from mailsim.registry import Registry

MAX_KEYS = 10
_SUFFIX = ".iam.gserviceaccount.com"


def is_service_account(email: str) -> bool:
    return email.endswith(_SUFFIX)


@dataclass(slots=True)
class ServiceAccount:
    """A service account; `client_id` is the number that administrators enter for a delegation."""

    email: str
    client_id: str
    project: str
    keys: dict[str, rsa.RSAPrivateKey] = field(default_factory=dict[str, rsa.RSAPrivateKey])

    def to_client(self) -> GoogleClient:
        return GoogleClient(id=self.client_id, secret="", name=self.email, project=self.project)

    def to_key_file(self, key_id: str, origin: str) -> dict[str, Any]:
        """Return the JSON key file of a key; its endpoints are at `origin`."""
        private_key = self.keys[key_id].private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return {
            "type": "service_account",
            "project_id": self.project,
            "private_key_id": key_id,
            "private_key": private_key.decode(),
            "client_email": self.email,
            "client_id": self.client_id,
            "auth_uri": f"{origin}/o/oauth2/auth",
            "token_uri": f"{origin}/token",
            "auth_provider_x509_cert_url": f"{origin}/oauth2/v1/certs",
            "universe_domain": "googleapis.com",
        }


@dataclass(slots=True)
class ServiceAccounts:
    """All service accounts by email address.

    `delegations` maps client ID and domain to the scopes that the domain's administrator authorized.
    """

    registry: Registry
    accounts: dict[str, ServiceAccount] = field(default_factory=dict[str, ServiceAccount])
    delegations: dict[tuple[str, str], frozenset[str]] = field(
        default_factory=dict[tuple[str, str], frozenset[str]]
    )

    def issue_key(self, name: str, project: str) -> tuple[ServiceAccount, str]:
        """Issue a key for a service account, which is created if it does not exist."""
        email = f"{name}@{project}{_SUFFIX}"
        number = 10**20 + stable_hash(self.registry.seed, "service account", email) * 5 % 10**20
        account = self.accounts.setdefault(email, ServiceAccount(email, str(number), project))
        if len(account.keys) >= MAX_KEYS:
            raise InvalidRequest(f"{email} has {MAX_KEYS} keys already; delete one")
        key_id = self.registry.new_bytes(f"key of {email}", 20).hex()
        account.keys[key_id] = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        return account, key_id

    def get_account(self, email: str) -> ServiceAccount:
        account = self.accounts.get(email)
        if account is None:
            raise NotFound(f"there is no service account {email}")
        return account

    def find_client(self, client_id: str) -> GoogleClient | None:
        found = (account for account in self.accounts.values() if account.client_id == client_id)
        account = next(found, None)
        return None if account is None else account.to_client()

    def delete_account(self, email: str) -> None:
        del self.accounts[self.get_account(email).email]

    def delete_key(self, email: str, key_id: str) -> None:
        if self.get_account(email).keys.pop(key_id, None) is None:
            raise NotFound(f"{email} has no key {key_id}")

    def is_delegated(self, client_id: str, domain: str, scopes: tuple[str, ...]) -> bool:
        """Whether the administrator of a domain authorized the client for each of these scopes."""
        return set(scopes) <= self.delegations.get((client_id, domain.lower()), frozenset())
