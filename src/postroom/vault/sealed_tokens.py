"""Encrypted, expiring tokens for URLs and cookies."""

import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error

from postroom.errors import OperatorError
from postroom.model import Secret
from postroom.ports import SealedSecret
from postroom.vault.sealer import Sealer


def issue(sealer: Sealer, purpose: str, value: bytes, seconds: float) -> str:
    """A token that carries the value. It can be redeemed for the same purpose only, until it expires."""
    sealed = sealer.seal(f"ticket/{purpose}", Secret(f"{time.time() + seconds:.0f} {value.decode()}"))
    return f"{sealed.key_id}.{urlsafe_b64encode(sealed.value).rstrip(b'=').decode()}"


def redeem(sealer: Sealer, purpose: str, ticket: str) -> bytes | None:
    """The value of a token; None if it was not issued here, was changed, or has expired."""
    key_id, _, encoded = ticket.partition(".")
    try:
        value = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        opened = sealer.open(f"ticket/{purpose}", SealedSecret(key_id, value)).reveal()
    except (OperatorError, Base64Error, ValueError):
        return None
    until, _, text = opened.partition(" ")
    return text.encode() if float(until) > time.time() else None
