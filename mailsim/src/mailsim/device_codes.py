"""DeviceCodes: sign-ins of devices without a browser, which wait for a decision of their user (RFC 8628).

Both providers share it. It keeps the state only: each provider has its own endpoints, errors and page.
"""

import base64
from dataclasses import dataclass

from mailsim.errors import NotFound
from mailsim.message_state import ProviderName
from mailsim.registry import Registry

_ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"  # RFC 8628, section 6.1: no vowels, so no words
_FORGET_SECONDS = 86_400.0  # after expiry; until then, a poll gets `expired_token`


@dataclass(slots=True)
class DeviceSignIn:
    """One sign-in. `address` is the account whose user approved it; empty: not approved yet."""

    provider: ProviderName
    device_code: str
    user_code: str
    client_id: str
    tenant: str  # of the URL at Entra; empty at Google
    scopes: tuple[str, ...]
    expires: float
    interval: int  # seconds between two polls
    address: str = ""
    declined: bool = False
    polled: float | None = None  # the last poll

    def is_open(self, now: float) -> bool:
        """Whether the user may still decide."""
        return now < self.expires and not self.address and not self.declined

    def record_poll(self, now: float) -> bool:
        """Record a poll; return whether it came too early."""
        early = self.polled is not None and now < self.polled + self.interval
        self.polled = now
        return early


class DeviceCodes:
    """All sign-ins of devices, by device code."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.sign_ins: dict[str, DeviceSignIn] = {}

    def start(
        self,
        provider: ProviderName,
        client_id: str,
        scopes: tuple[str, ...],
        *,
        seconds: int,
        interval: int,
        tenant: str = "",
    ) -> DeviceSignIn:
        now = self._registry.clock.time()
        forgotten = now - _FORGET_SECONDS
        self.sign_ins = {code: one for code, one in self.sign_ins.items() if one.expires > forgotten}
        draw = self._registry.new_bytes(f"device code of {provider}", 64)
        consonants = "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in draw[:8])
        user_code = f"{consonants[:4]}-{consonants[4:]}" if provider == "gmail" else consonants
        device_code = base64.urlsafe_b64encode(draw[8:]).decode().rstrip("=")
        sign_in = DeviceSignIn(
            provider, device_code, user_code, client_id, tenant, scopes, now + seconds, interval
        )
        self.sign_ins[device_code] = sign_in
        return sign_in

    def find_open(self, user_code: str, provider: ProviderName | None = None) -> DeviceSignIn | None:
        """Find the sign-in of a code that a user typed: in any case, with or without the hyphen."""
        now, typed = self._registry.clock.time(), _normalize(user_code)
        for sign_in in self.sign_ins.values():
            if _normalize(sign_in.user_code) == typed and provider in {None, sign_in.provider}:
                return sign_in if sign_in.is_open(now) else None
        return None

    def get_open(self, user_code: str) -> DeviceSignIn:
        sign_in = self.find_open(user_code)
        if sign_in is None:
            raise NotFound(f"no device waits with the code {user_code!r}; it may have expired")
        return sign_in

    def list_open(self) -> list[DeviceSignIn]:
        now = self._registry.clock.time()
        return [sign_in for sign_in in self.sign_ins.values() if sign_in.is_open(now)]

    def find_polled(self, provider: ProviderName, device_code: str, client_id: str) -> DeviceSignIn | None:
        sign_in = self.sign_ins.get(device_code)
        is_own = sign_in is not None and (sign_in.provider, sign_in.client_id) == (provider, client_id)
        return sign_in if is_own else None

    def finish(self, sign_in: DeviceSignIn) -> None:
        """Forget a sign-in whose tokens were issued: a device code is valid once."""
        self.sign_ins.pop(sign_in.device_code, None)


def _normalize(user_code: str) -> str:
    return user_code.replace("-", "").strip().upper()
