"""Notices by email: TLS is required and verified, sign-in works, refusals are explained."""

import ssl
from uuid import uuid4

import pytest
import trustme

from postroom.model import Secret
from postroom.notice_types import NoticeMail
from postroom.providers.smtp_sender import SmtpSender
from smtp_server import mail_server

SENDER = "Postroom <postroom@example.org>"
MAIL = NoticeMail(("ap@example.com", "ops@example.com"), "[Postroom] Grüße", "Text\n.\nmore\n", uuid4())


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A server's TLS context, and the file with the authority that signed its certificate."""
    made = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.issue_cert("127.0.0.1").configure_cert(context)
    file = tmp_path_factory.mktemp("authority") / "ca.pem"
    made.cert_pem.write_to_path(file)
    return context, file


async def test_message_arrives_whole_with_its_id():
    async with mail_server() as server:
        sent = await SmtpSender(Secret(server.url), SENDER).send(MAIL)
    assert (sent.sent, sent.error) == (True, None)
    [mail] = server.accepted
    assert mail.recipients == ["ap@example.com", "ops@example.com"]
    assert mail.message["subject"] == MAIL.subject
    assert mail.message["message-id"] == f"<{MAIL.notice}@example.org>"
    assert mail.text.replace("\r\n", "\n") == MAIL.text


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_tls_is_used_and_its_certificate_verified(scheme, authority):
    context, file = authority
    tls = {"implicit_tls": context} if scheme == "smtps" else {"tls": context}
    async with mail_server(login=("user@x", "p@ss"), **tls) as server:
        url = Secret(f"{scheme}://user%40x:p%40ss@127.0.0.1:{server.port}")
        untrusted = await SmtpSender(url, SENDER).send(MAIL)
        assert "check its certificate" in untrusted.error
        trusted = await SmtpSender(url, SENDER, file).send(MAIL)
        assert (trusted.sent, trusted.error) == (True, None)
        wrong = Secret(f"{scheme}://user%40x:wrong@127.0.0.1:{server.port}")
        assert "user or the password (535)" in (await SmtpSender(wrong, SENDER, file).send(MAIL)).error
    assert len(server.accepted) == 1


async def test_nothing_is_sent_in_the_clear_unless_the_url_says_so():
    async with mail_server() as server:
        url = Secret(f"smtp://127.0.0.1:{server.port}")
        sent = await SmtpSender(url, SENDER).send(MAIL)
    assert (sent.sent, server.accepted) == (False, [])
    assert "does not offer STARTTLS" in sent.error


async def test_refused_recipients_are_counted_and_the_others_get_the_message():
    async with mail_server(verdict=lambda each: 550 if each.startswith("ops") else 250) as server:
        sent = await SmtpSender(Secret(server.url), SENDER).send(MAIL)
    assert (sent.sent, sent.error) == (True, "the mail server refused 1 of 2 recipients")
    assert [mail.recipients for mail in server.accepted] == [["ap@example.com"]]
    async with mail_server(verdict=lambda _: 550) as server:
        sent = await SmtpSender(Secret(server.url), SENDER).send(MAIL)
    assert (sent.sent, sent.error) == (False, "the mail server refused every recipient")


async def test_server_that_is_gone_is_reported():
    async with mail_server() as server:
        url = Secret(server.url)
    assert (await SmtpSender(url, SENDER).send(MAIL)).error == "the mail server cannot be reached"


async def test_message_counts_as_sent_though_the_server_ends_the_session_with_an_error():
    async with mail_server(goodbye=421) as server:
        sent = await SmtpSender(Secret(server.url), SENDER).send(MAIL)
    assert (sent.sent, len(server.accepted)) == (True, 1)


@pytest.mark.parametrize("place", ["user:p%C3%A4ss@127.0.0.1:{port}", "mail..example.org:{port}"])
async def test_url_that_cannot_be_used_is_reported(place):
    async with mail_server() as server:
        url = Secret(f"smtp+plain://{place.format(port=server.port)}")
        sent = await SmtpSender(url, SENDER).send(MAIL)
    assert (sent.sent, "not ASCII" in sent.error) == (False, True)
