"""RSA keys that sign ID tokens and push tokens, and the two documents that publish them.

The key `unpublished` is in neither document: verifiers must reject tokens signed with it.
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

# Certificates are valid at any time of the simulator's clock.
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

    def to_jwk(self) -> dict[str, str]:
        numbers = self.private.public_key().public_numbers()
        return {
            "kty": "RSA",
            "alg": "RS256",
            "use": "sig",
            "kid": self.kid,
            "n": _encode_unsigned(numbers.n),
            "e": _encode_unsigned(numbers.e),
        }


@dataclass(frozen=True, slots=True)
class GoogleKeyRing:
    """The keys. Google publishes two at a time and signs with one of them."""

    current: GoogleSigningKey
    previous: GoogleSigningKey
    unpublished: GoogleSigningKey

    def to_jwks(self) -> dict[str, Any]:
        return {"keys": [self.current.to_jwk(), self.previous.to_jwk()]}

    def list_certificates(self) -> dict[str, str]:
        return {key.kid: key.certificate_pem for key in (self.current, self.previous)}


def make_key_ring() -> GoogleKeyRing:
    return GoogleKeyRing(current=_make_key(), previous=_make_key(), unpublished=_make_key())


def rotate_key_ring(ring: GoogleKeyRing) -> GoogleKeyRing:
    return GoogleKeyRing(current=_make_key(), previous=ring.current, unpublished=ring.unpublished)


def compute_at_hash(access_token: str) -> str:
    """Compute the at_hash claim of OpenID Connect: the left half of the access token's SHA-256."""
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


def _encode_unsigned(number: int) -> str:
    octets = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()
