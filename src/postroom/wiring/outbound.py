"""Build the context that sends events to webhooks, from the settings."""

from postroom.config import Settings
from postroom.flow.outbound.deliver import DeliverContext
from postroom.providers.webhook_sender import WebhookSender
from postroom.store.database import Database
from postroom.vault import Sealer


def build_deliver_context(settings: Settings, database: Database, sealer: Sealer) -> DeliverContext:
    networks = settings.webhook_networks or ()
    return DeliverContext(database, sealer, WebhookSender(networks).post, allows_http=bool(networks))
