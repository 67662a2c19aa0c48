"""Private keys that sign the assertions of applications, parsed once."""

from functools import lru_cache

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from postroom.model import Secret


# Checking an RSA key takes far longer than signing with it, and the mailboxes of a directory share one key.
@lru_cache(maxsize=16)
def parse_signing_key(pem: Secret) -> RSAPrivateKey:
    """Parse an unencrypted RSA key. Raise ValueError if it is not one."""
    try:
        key = load_pem_private_key(pem.reveal().encode(), password=None)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError("not an unencrypted private key") from error
    if not isinstance(key, RSAPrivateKey):
        raise ValueError("not an RSA key")  # noqa: TRY004  # of the wrong content, not type
    return key
