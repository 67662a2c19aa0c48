"""Build the contexts that send events to webhooks and notices to people, from the settings."""

from postroom.config import Settings
from postroom.flow.outbound.deliver import DeliverContext
from postroom.flow.outbound.send_notices import NoticeContext
from postroom.providers.smtp_sender import SmtpSender
from postroom.providers.webhook_sender import WebhookSender
from postroom.store.database import Database
from postroom.vault import Sealer


def build_deliver_context(settings: Settings, database: Database, sealer: Sealer) -> DeliverContext:
    networks = settings.webhook_networks or ()
    return DeliverContext(database, sealer, WebhookSender(networks).post, allows_http=bool(networks))


def build_notice_context(settings: Settings, database: Database, sealer: Sealer, url: str) -> NoticeContext:
    """`url` is where browsers reach the pages to which notices link."""
    networks, mailer = settings.webhook_networks or (), None
    if settings.smtp_url is not None and settings.smtp_from is not None:
        mailer = SmtpSender(settings.smtp_url, settings.smtp_from, settings.ca_file)
    return NoticeContext(
        database=database,
        sealer=sealer,
        post=WebhookSender(networks).post,
        send_mail=mailer.send if mailer else None,
        url=url or f"http://{settings.host}:{settings.port}",
        allows_http=bool(networks),
    )
