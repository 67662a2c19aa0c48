"""The unit in which limits count clients: an IPv4 address, or the /64 network of an IPv6 address."""

from ipaddress import IPv4Address, IPv6Address, ip_address


def group_address(host: str) -> str:
    """The key of a client for limits. A text that is no IP address stays as it is.

    A client of IPv6 has at least a /64, and can use every address in it.
    """
    address = parse_address(host)
    if isinstance(address, IPv6Address):
        return f"{IPv6Address(int(address) >> 64 << 64)}/64"
    return str(address) if address else host


def parse_address(host: str) -> IPv4Address | IPv6Address | None:
    """The IP address, without a zone. An IPv4 address that arrived on an IPv6 socket is an IPv4 address."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
