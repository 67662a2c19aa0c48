"""Encrypted, expiring values as text, for URLs, cookies and stored API responses.

Nothing is stored here: the text contains the value and its expiry.
"""

import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error

from postroom.errors import OperatorError
from postroom.model import Secret
from postroom.ports import SealedSecret
from postroom.vault.sealer import Sealer


def seal(sealer: Sealer, purpose: str, value: bytes, seconds: float) -> str:
    """Seal a value for this many seconds. It can be unsealed for the same purpose only, until it expires."""
    sealed = sealer.seal(f"ticket/{purpose}", Secret(f"{time.time() + seconds:.0f} {value.decode()}"))
    return f"{sealed.key_id}.{urlsafe_b64encode(sealed.value).rstrip(b'=').decode()}"


def unseal(sealer: Sealer, purpose: str, text: str) -> bytes | None:
    """The value; None if it was not sealed here, was changed, or has expired."""
    key_id, _, encoded = text.partition(".")
    try:
        value = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        opened = sealer.open(f"ticket/{purpose}", SealedSecret(key_id, value)).reveal()
    except (OperatorError, Base64Error, ValueError):
        return None
    until, _, content = opened.partition(" ")
    return content.encode() if float(until) > time.time() else None
