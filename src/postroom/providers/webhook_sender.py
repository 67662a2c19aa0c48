"""Send requests to webhook URLs that customers choose: never to private networks, no redirects.

A name is refused if one of its addresses is. Whatever the URL spells, the address of each connection is
checked again when its socket is created: there is no way around that check, by DNS rebinding, by an unusual
spelling of an IP address, or by a caller that forgets one. Signatures and retries are in
`flow.outbound.deliver`.
"""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from postroom.ports import PostResult

SECONDS: Final = 15
MAX_RESPONSE_BYTES: Final = 4096
_NAT64: Final = IPv6Network("64:ff9b::/96")
# Nothing outside it is on the public internet, whatever Python's version counts as global.
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_DOCUMENTATION: Final = IPv6Network("3fff::/20")
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
            self._check_scheme(parts.scheme)
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
                resolver=_CheckedResolver(self.allowed, plain=plain),
                use_dns_cache=False,
                socket_factory=partial(_create_socket, self.allowed, plain=plain),
            ),
            timeout=aiohttp.ClientTimeout(total=SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
        )

    def _check_scheme(self, scheme: str) -> None:
        if scheme != "https" and not (scheme == "http" and self.allowed):
            raise _AddressRefused(_HTTPS_REQUIRED)


def _create_socket(
    allowed: Networks, info: tuple[int, int, int, str, tuple[object, ...]], *, plain: bool
) -> socket.socket:
    """Create the socket of a connection, unless it must not be made."""
    family, kind, protocol, _, endpoint = info
    _parse_allowed_address(str(endpoint[0]), allowed, plain=plain)
    return socket.socket(family, kind, protocol)


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
            address = _parse_allowed_address(str(endpoint[0]), self._allowed, plain=self._plain)
            results.append(
                ResolveResult(
                    hostname=host,
                    host=str(address),
                    port=port,
                    family=kind,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST,
                )
            )
        return results

    async def close(self) -> None:
        """Nothing to close."""


def _parse_allowed_address(text: str, allowed: Networks, *, plain: bool) -> IPv4Address | IPv6Address:
    address = ip_address(text.partition("%")[0])
    require_allowed_address(address, allowed)
    if plain and not _is_in_networks(address, allowed):
        raise _AddressRefused(_HTTPS_REQUIRED)
    return address


def require_allowed_address(address: IPv4Address | IPv6Address, allowed: Networks) -> None:
    """Raise unless the address is on the public internet or in an allowed network."""
    if not _is_in_networks(address, allowed) and not _is_public(address):
        raise _AddressRefused("the host has a private IP address; POSTROOM_WEBHOOK_NETWORKS can allow it")


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether the address, and the IPv4 address inside it that a gateway would connect to, is public."""
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast
    if address in _NAT64:
        return _is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    if address.ipv4_mapped is not None:
        return _is_public(address.ipv4_mapped)
    inner = address.sixtofour or (address.teredo[1] if address.teredo else None)
    return (
        address in _GLOBAL_UNICAST
        and address.is_global
        and address not in _DOCUMENTATION
        and (inner is None or _is_public(inner))
    )


def _is_in_networks(address: IPv4Address | IPv6Address, networks: Networks) -> bool:
    return any(address in network for network in networks)
