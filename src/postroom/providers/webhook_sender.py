"""Send requests to webhook URLs that customers choose: never to private networks, no redirects.

The host is resolved here, all of its addresses are checked, and the connection uses one of them, so that DNS
rebinding gains nothing. Signatures and retries are in `flow.outbound.deliver`.
"""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from postroom.ports import PostResult

SECONDS: Final = 15
MAX_RESPONSE_BYTES: Final = 4096
_NAT64: Final = IPv6Network("64:ff9b::/96")
_HTTPS_REQUIRED: Final = "the URL must be https; plain http is allowed only in POSTROOM_WEBHOOK_NETWORKS"
Networks = Sequence[IPv4Network | IPv6Network]


class _AddressRefused(OSError):
    """The address must not be connected to."""


@dataclass(frozen=True)
class WebhookSender:
    allowed: Networks = ()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> PostResult:
        """The status of the response, or the reason why there is none."""
        parts = urlsplit(url)
        try:
            self._check(parts.scheme, parts.hostname or "")
            async with (
                self._client(plain=parts.scheme == "http") as client,
                client.post(url, data=body, headers=dict(headers), allow_redirects=False) as response,
            ):
                await response.content.read(MAX_RESPONSE_BYTES)
                return PostResult(response.status, None)
        except _AddressRefused as error:
            return PostResult(None, str(error))
        except aiohttp.ClientConnectorError as error:
            refused = error.os_error
            return PostResult(
                None,
                str(refused) if isinstance(refused, _AddressRefused) else "the receiver cannot be reached",
            )
        except TimeoutError:
            return PostResult(None, f"the receiver did not respond within {SECONDS} seconds")
        except (aiohttp.ClientError, OSError, ValueError):
            return PostResult(None, "the receiver cannot be reached, or its response was cut off")

    def _client(self, *, plain: bool) -> aiohttp.ClientSession:
        """A new connection for each request: a reused one would not be checked again."""
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                resolver=_CheckedResolver(self.allowed, plain=plain), use_dns_cache=False
            ),
            timeout=aiohttp.ClientTimeout(total=SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
        )

    def _check(self, scheme: str, host: str) -> None:
        """Check the scheme, and an IP address in place of a host name, which is not resolved."""
        if scheme not in {"https", "http"}:
            raise _AddressRefused(_HTTPS_REQUIRED)
        try:
            address = ip_address(host)
        except ValueError:
            if scheme == "http" and not self.allowed:
                raise _AddressRefused(_HTTPS_REQUIRED) from None
            return
        require_allowed_address(address, self.allowed)
        if scheme == "http" and not _is_in_networks(address, self.allowed):
            raise _AddressRefused(_HTTPS_REQUIRED)


class _CheckedResolver(AbstractResolver):
    """Resolves names to addresses that may be connected to; raises if one of them may not."""

    def __init__(self, allowed: Networks, *, plain: bool) -> None:
        self._allowed = allowed
        self._plain = plain

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        results: list[ResolveResult] = []
        for kind, _, protocol, _, endpoint in found:
            address = str(endpoint[0]).partition("%")[0]
            require_allowed_address(ip_address(address), self._allowed)
            if self._plain and not _is_in_networks(ip_address(address), self._allowed):
                raise _AddressRefused(_HTTPS_REQUIRED)
            results.append(
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=port,
                    family=kind,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST,
                )
            )
        return results

    async def close(self) -> None:
        """Nothing to close."""


def require_allowed_address(address: IPv4Address | IPv6Address, allowed: Networks) -> None:
    """Raise unless the address is on the public internet or in an allowed network."""
    if _is_in_networks(address, allowed):
        return
    inner = _embedded_ipv4(address)
    if not address.is_global or address.is_multicast or (inner is not None and not inner.is_global):
        raise _AddressRefused("the host has a private IP address; POSTROOM_WEBHOOK_NETWORKS can allow it")


def _embedded_ipv4(address: IPv4Address | IPv6Address) -> IPv4Address | None:
    """The IPv4 address inside an IPv6 address, which a gateway would connect to."""
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


def _is_in_networks(address: IPv4Address | IPv6Address, networks: Networks) -> bool:
    return any(address in network for network in networks)
