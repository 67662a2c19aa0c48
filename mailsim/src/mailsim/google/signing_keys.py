"""The RSA keys that sign id tokens and push tokens, and the two documents that publish them.

`stranger` is a key that is never published: tokens signed with it must be refused by whoever checks them.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

# A certificate that is valid whatever the simulator's clock says.
_FROM = datetime(2000, 1, 1, tzinfo=UTC)
_UNTIL = _FROM + timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class GoogleSigningKey:
    kid: str
    private: rsa.RSAPrivateKey
    certificate_pem: str

    def sign(self, claims: Mapping[str, Any]) -> str:
        return jwt.encode(
            dict(claims), self.private, algorithm="RS256", headers={"kid": self.kid, "typ": "JWT"}
        )

    def jwk(self) -> dict[str, str]:
        numbers = self.private.public_key().public_numbers()
        return {
            "kty": "RSA",
            "alg": "RS256",
            "use": "sig",
            "kid": self.kid,
            "n": _unsigned(numbers.n),
            "e": _unsigned(numbers.e),
        }


@dataclass(frozen=True, slots=True)
class GoogleKeyRing:
    """Google publishes two keys at a time and signs with one of them."""

    current: GoogleSigningKey
    previous: GoogleSigningKey
    stranger: GoogleSigningKey

    def jwks(self) -> dict[str, Any]:
        return {"keys": [self.current.jwk(), self.previous.jwk()]}

    def certificates(self) -> dict[str, str]:
        return {key.kid: key.certificate_pem for key in (self.current, self.previous)}


def make_ring() -> GoogleKeyRing:
    return GoogleKeyRing(current=_make_key(), previous=_make_key(), stranger=_make_key())


def rotate(ring: GoogleKeyRing) -> GoogleKeyRing:
    return GoogleKeyRing(current=_make_key(), previous=ring.current, stranger=ring.stranger)


def at_hash(access_token: str) -> str:
    """The left half of the token's SHA-256, as OpenID Connect binds it to the id token."""
    digest = hashlib.sha256(access_token.encode()).digest()
    return base64.urlsafe_b64encode(digest[:16]).rstrip(b"=").decode()


def _make_key() -> GoogleSigningKey:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = private.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.PKCS1)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "federated-signon.system.gserviceaccount.com")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .sign(private, hashes.SHA256())
    )
    return GoogleSigningKey(
        kid=hashlib.sha256(public).hexdigest()[:40],
        private=private,
        certificate_pem=certificate.public_bytes(serialization.Encoding.PEM).decode(),
    )


def _unsigned(number: int) -> str:
    octets = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()
