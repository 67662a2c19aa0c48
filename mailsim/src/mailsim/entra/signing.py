"""Signatures of Entra: the key that signs JWTs, and the verification of clients' signed assertions.

Also base64url. The key is generated at start and never stored.
"""

import base64
from dataclasses import dataclass
from typing import Any

import jwt
import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa


def b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def b64url_decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass(frozen=True, slots=True)
class EntraSigner:
    """An RSA key with its ID. Signs JWTs with RS256 and exports the public key as a JWK."""

    key: rsa.RSAPrivateKey
    kid: str

    def sign(self, claims: dict[str, Any]) -> str:
        head = msgspec.json.encode({"typ": "JWT", "alg": "RS256", "kid": self.kid})
        signed = f"{b64url(head)}.{b64url(msgspec.json.encode(claims))}"
        return f"{signed}.{b64url(self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def jwk(self, issuer: str) -> dict[str, Any]:
        public = self.key.public_key().public_numbers()
        return {
            "kty": "RSA",
            "use": "sig",
            "kid": self.kid,
            "x5t": self.kid,
            "alg": "RS256",
            "n": b64url(public.n.to_bytes((public.n.bit_length() + 7) // 8, "big")),
            "e": b64url(public.e.to_bytes(3, "big")),
            "issuer": issuer,
        }


def new_signer() -> EntraSigner:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    der = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    digest = hashes.Hash(hashes.SHA256())
    digest.update(der)
    return EntraSigner(key, b64url(digest.finalize()[:20]))


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate of an application, used to verify its client assertions."""

    thumbprint: str
    thumbprint_s256: str
    public_key: rsa.RSAPublicKey
    not_after: float


def read_certificate(pem: str) -> ClientCertificate:
    """Parse an RSA certificate in PEM. Raises ValueError for anything else."""
    certificate = x509.load_pem_x509_certificate(pem.encode())
    public_key = certificate.public_key()
    if not isinstance(public_key, rsa.RSAPublicKey):
        raise ValueError("only RSA certificates can sign client assertions")  # noqa: TRY004 - the value is wrong
    return ClientCertificate(
        thumbprint=b64url(certificate.fingerprint(hashes.SHA1())),  # noqa: S303 - x5t is SHA-1 by definition
        thumbprint_s256=b64url(certificate.fingerprint(hashes.SHA256())),
        public_key=public_key,
        not_after=certificate.not_valid_after_utc.timestamp(),
    )


def verify_assertion(assertion: str, certificates: list[ClientCertificate]) -> dict[str, Any]:
    """Return the claims of an assertion signed with one of the certificates. Raises ValueError."""
    try:
        head = jwt.get_unverified_header(assertion)
    except jwt.PyJWTError as error:
        raise ValueError(f"Reason - {error}") from error
    key_ids = {str(head[name]).rstrip("=") for name in ("x5t", "x5t#S256", "kid") if head.get(name)}
    chosen = [
        certificate
        for certificate in certificates
        if {certificate.thumbprint, certificate.thumbprint_s256} & key_ids
    ]
    if not chosen:
        raise ValueError("Reason - The key was not found.")
    try:
        return jwt.decode(
            assertion,
            chosen[0].public_key,
            algorithms=["RS256", "PS256"],
            options={"verify_aud": False, "verify_exp": False, "verify_nbf": False, "verify_iat": False},
        )
    except jwt.PyJWTError as error:
        raise ValueError("Reason - The key used is wrong or the signature is invalid.") from error
