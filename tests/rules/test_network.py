"""No test reaches beyond this machine."""

import socket

import pytest


@pytest.mark.parametrize("family, address", [(socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")])
def test_connecting_to_another_machine_raises(family, address):
    with socket.socket(family) as endpoint, pytest.raises(RuntimeError, match="only this machine"):
        endpoint.connect((address, 80))


def test_datagram_to_another_machine_raises():
    with (
        socket.socket(type=socket.SOCK_DGRAM) as endpoint,
        pytest.raises(RuntimeError, match="only this machine"),
    ):
        endpoint.sendto(b"", ("192.0.2.1", 53))


def test_loopback_is_allowed():
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        assert client.getpeername() == server.getsockname()
