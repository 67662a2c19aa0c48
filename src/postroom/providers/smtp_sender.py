"""Send notices as email through the operator's mail server.

The standard library's client runs in a thread. The operator chooses the server, so its IP address is not
checked. Customers choose only the recipients.
"""

import asyncio
import smtplib
import ssl
from contextlib import closing, suppress
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate, parseaddr
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from postroom.model import Secret
from postroom.notice_types import NoticeMail, NoticeResult

SECONDS: Final = 20
# A server may scan a message before it accepts it. One that is given up too early gets it again.
ACCEPT_SECONDS: Final = 120
_PORTS: Final = {"smtps": 465, "smtp": 587, "smtp+plain": 25}


@dataclass(frozen=True)
class SmtpSender:
    """`url` is that of POSTROOM_SMTP_URL: `smtps` is TLS from the start, `smtp` requires STARTTLS."""

    url: Secret
    sender: str
    ca_file: Path | None = None

    async def send(self, mail: NoticeMail) -> NoticeResult:
        """Send one message. Never raises: the result says why it was not accepted."""
        try:
            refused = await asyncio.to_thread(self._send, self._build_message(mail), mail.recipients)
        except smtplib.SMTPRecipientsRefused:
            return NoticeResult(sent=False, error="the mail server refused every recipient")
        except smtplib.SMTPSenderRefused as error:
            reason = f"the mail server refused the sender, POSTROOM_SMTP_FROM ({error.smtp_code})"
            return NoticeResult(sent=False, error=reason)
        except smtplib.SMTPAuthenticationError as error:
            reason = f"the mail server rejected the user or the password ({error.smtp_code})"
            return NoticeResult(sent=False, error=reason)
        except smtplib.SMTPNotSupportedError:
            reason = "the mail server does not offer STARTTLS or sign-in as POSTROOM_SMTP_URL requires"
            return NoticeResult(sent=False, error=reason)
        except smtplib.SMTPResponseException as error:
            return NoticeResult(sent=False, error=f"the mail server returned {error.smtp_code}")
        except ssl.SSLError:
            reason = "the TLS connection to the mail server failed; check its certificate and the port"
            return NoticeResult(sent=False, error=reason)
        except UnicodeError:
            reason = "POSTROOM_SMTP_URL has an invalid host, or a user or password that is not ASCII"
            return NoticeResult(sent=False, error=reason)
        except (smtplib.SMTPException, OSError):
            return NoticeResult(sent=False, error="the mail server cannot be reached")
        if refused:
            count = f"{len(refused)} of {len(mail.recipients)}"
            return NoticeResult(sent=True, error=f"the mail server refused {count} recipients")
        return NoticeResult(sent=True)

    def _build_message(self, mail: NoticeMail) -> EmailMessage:
        message = EmailMessage()
        message["From"] = self.sender
        message["To"] = ", ".join(mail.recipients)
        message["Subject"] = mail.subject
        message["Date"] = formatdate()
        message["Message-ID"] = f"<{mail.notice}@{_get_domain(self.sender)}>"
        # Requests no automatic reply, such as an out-of-office message.
        message["Auto-Submitted"] = "auto-generated"
        message["X-Auto-Response-Suppress"] = "All"
        message.set_content(mail.text)
        return message

    def _send(self, message: EmailMessage, recipients: tuple[str, ...]) -> dict[str, tuple[int, bytes]]:
        """Send in this thread; the recipients that were refused, if others were not."""
        parts = urlsplit(self.url.reveal())
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        with closing(self._connect(parts.scheme, host, port)) as server:
            if parts.scheme == "smtp":
                server.starttls(context=self._build_tls_context())
            if parts.username is not None:
                server.login(unquote(parts.username), unquote(parts.password or ""))
            if server.sock is not None:
                server.sock.settimeout(ACCEPT_SECONDS)
            refused = server.send_message(message, parseaddr(self.sender)[1], recipients)
            with suppress(smtplib.SMTPException, OSError):  # the message is accepted, whatever it answers
                server.quit()
            return refused

    def _connect(self, scheme: str, host: str, port: int) -> smtplib.SMTP:
        if scheme == "smtps":
            return smtplib.SMTP_SSL(host, port, timeout=SECONDS, context=self._build_tls_context())
        return smtplib.SMTP(host, port, timeout=SECONDS)

    def _build_tls_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)


def _get_domain(sender: str) -> str:
    return parseaddr(sender)[1].rpartition("@")[2]
