"""Small values that leave the house and come back, readable by nobody in between and good for a while."""

import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error

from postroom.errors import OperatorError
from postroom.model import Secret
from postroom.ports import SealedSecret
from postroom.vault.sealer import Sealer


def issue(sealer: Sealer, purpose: str, value: bytes, seconds: float) -> str:
    """A word for an address or a cookie. What was written for one purpose is read for no other."""
    sealed = sealer.seal(f"ticket/{purpose}", Secret(f"{time.time() + seconds:.0f} {value.decode()}"))
    return f"{sealed.key_id}.{urlsafe_b64encode(sealed.value).rstrip(b'=').decode()}"


def redeem(sealer: Sealer, purpose: str, ticket: str) -> bytes | None:
    """What was written; None where it is not ours, was changed, or is too old."""
    key_id, _, encoded = ticket.partition(".")
    try:
        value = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        opened = sealer.open(f"ticket/{purpose}", SealedSecret(key_id, value)).reveal()
    except (OperatorError, Base64Error, ValueError):
        return None
    until, _, text = opened.partition(" ")
    return text.encode() if float(until) > time.time() else None
