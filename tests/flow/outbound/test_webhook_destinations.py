"""W5: deliveries go only to public addresses, and by https, unless a network is named."""

import asyncio
from ipaddress import ip_address, ip_network

import pytest

from postroom.providers import webhook_sender
from postroom.providers.webhook_sender import WebhookSender

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


@pytest.mark.parametrize(
    "url, words",
    [
        ("http://127.0.0.1:1/", "must be https"),
        ("https://localhost:1/", "private IP address"),
        ("https://[::1]:1/", "private IP address"),
        ("https://[::ffff:10.0.0.1]/", "private IP address"),
        ("https://169.254.169.254/", "private IP address"),
        ("https://[64:ff9b::a00:1]/", "private IP address"),
        ("https://0.0.0.0/", "private IP address"),
        ("https://\uff11\uff12\uff17.0.0.1:1/", "private IP address"),
        ("https://127。0。0。1:1/", "private IP address"),
        ("https://0x7f.1:1/", "private IP address"),
        ("https://0177.0.0.1:1/", "cannot be reached"),
        ("https://2130706433:1/", "cannot be reached"),
        ("https://[fec0::1]:1/", "private IP address"),
        ("https://[64:ff9b:1::7f00:1]:1/", "private IP address"),
        ("https://[::127.0.0.1]:1/", "private IP address"),
        ("https://[2002:7f00:1::]:1/", "private IP address"),
        ("http://app.example.org/", "must be https"),
        ("ftp://app.example.org/", "must be https"),
    ],
)
async def test_nothing_is_sent_inside_unless_it_is_allowed(url, words):
    posted = await WebhookSender(()).post(url, {}, b"{}")
    assert posted.status is None
    assert words in posted.error


@pytest.mark.parametrize(
    "address, public",
    [
        ("93.184.215.14", True),
        ("10.1.2.3", False),
        ("192.168.0.1", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("fe80::1", False),
        ("fc00::1", False),
        ("2002:a00:1::", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:93.184.215.14", True),
        ("64:ff9b::5db8:d70e", True),
        ("2606:4700::1111", True),
    ],
)
def test_public_addresses_are_distinguished_from_private_ones(address, public):
    if public:
        webhook_sender.require_allowed_address(ip_address(address), ())
    else:
        with pytest.raises(OSError, match="private"):
            webhook_sender.require_allowed_address(ip_address(address), ())
    webhook_sender.require_allowed_address(ip_address(address), (ip_network("0.0.0.0/0"), ip_network("::/0")))


async def test_a_name_that_leads_inside_is_found_out_when_it_is_resolved(monkeypatch):
    loop = asyncio.get_running_loop()

    async def rebound(host, port, **_):
        return [(2, 1, 6, "", ("93.184.215.14", port)), (2, 1, 6, "", ("10.0.0.1", port))]

    monkeypatch.setattr(loop, "getaddrinfo", rebound)
    posted = await WebhookSender(()).post("https://app.example.org/", {}, b"{}")
    assert "private IP address" in posted.error


async def test_plain_http_goes_only_to_networks_that_are_named(monkeypatch):
    loop = asyncio.get_running_loop()

    async def public(host, port, **_):
        return [(2, 1, 6, "", ("93.184.215.14", port))]

    monkeypatch.setattr(loop, "getaddrinfo", public)
    posted = await WebhookSender(LOOPBACK).post("http://app.example.org/", {}, b"{}")
    assert posted.error.startswith("the URL must be https")
