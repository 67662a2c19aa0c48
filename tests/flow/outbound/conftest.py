from ipaddress import ip_network

import pytest

from postroom.flow.outbound.send_notices import NoticeContext
from postroom.model import Secret
from postroom.providers.smtp_sender import SmtpSender
from postroom.providers.webhook_sender import WebhookSender
from smtp_server import mail_server
from web.sign_in_support import SEALER

LOOPBACK = (ip_network("127.0.0.0/8"),)
URL = "https://post.example.org"


@pytest.fixture
async def smtp():
    async with mail_server() as server:
        yield server


@pytest.fixture
def context(database, smtp):
    sender = SmtpSender(Secret(smtp.url), "Postroom <postroom@example.org>")
    return NoticeContext(database, SEALER, WebhookSender(LOOPBACK).post, sender.send, URL, allows_http=True)
