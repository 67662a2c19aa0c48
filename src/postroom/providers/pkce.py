"""Proof key for code exchange (RFC 7636), method S256."""

from base64 import urlsafe_b64encode
from hashlib import sha256
from secrets import token_urlsafe

from postroom.model import Secret


def new_verifier() -> Secret:
    return Secret(token_urlsafe(48))


def challenge(verifier: Secret) -> str:
    return urlsafe_b64encode(sha256(verifier.reveal().encode()).digest()).rstrip(b"=").decode()
