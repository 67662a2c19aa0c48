"""What a person who types `mailsim` gets: two mailboxes with mail, and a text about what to do next."""

from mailsim.message_state import ProviderName
from mailsim.simulator import Simulator

SAMPLE_MAILBOXES: tuple[tuple[ProviderName, str], ...] = (
    ("gmail", "ann@example.com"),
    ("outlook", "bob@example.com"),
)
SAMPLE_MESSAGES = 50
_NAMES: dict[ProviderName, str] = {"gmail": "Gmail", "outlook": "Microsoft 365"}


def create_sample_mailboxes(sim: Simulator) -> None:
    for provider, address in SAMPLE_MAILBOXES:
        sim.registry.create_mailbox(provider, address, messages=SAMPLE_MESSAGES)


def describe_start(sim: Simulator, ca: str) -> str:
    """Return the text for a terminal: addresses, mailboxes, OAuth clients and first commands."""
    url, json = sim.base_urls["http"], "-H 'Content-Type: application/json'"
    mailboxes = [
        f"  {mailbox.address:<22}{_NAMES[mailbox.provider]:<16}{mailbox.total} messages"
        for mailbox in sim.registry.mailboxes.values()
    ]
    clients = [
        f"  {_NAMES[application.provider]:<16}{application.client_id}  {application.client_secret}"
        for application in sim.registry.applications.values()
    ]
    return "\n".join(
        [
            f"mailsim simulates Gmail and Microsoft 365 at {url}",
            "Open it in a browser to see mailboxes, requests and faults. With TLS:",
            f"  {sim.base_urls['https']} (CA: {ca})",
            "",
            "Mailboxes:",
            *(mailboxes or ["  none yet; create one on the page or with POST /_sim/mailboxes"]),
            "OAuth clients (ID and secret):",
            *clients,
            "",
            "Next:",
            "  # issue a token, read mail with it, deliver new mail",
            f'  curl {url}/_sim/google/tokens {json} -d \'{{"address": "ann@example.com"}}\'',
            f"  curl {url}/gmail/v1/users/me/messages -H 'Authorization: Bearer TOKEN'",
            f'  curl {url}/_sim/mailboxes/ann@example.com/messages {json} -d \'{{"kind": "invoice"}}\'',
            f"  Microsoft: tokens at {url}/_sim/microsoft/tokens, Graph at {url}/v1.0",
            f"  The control API: {url}/_sim/openapi.json",
            "Ctrl-C stops mailsim and forgets everything; GET /_sim/state saves it.",
        ]
    )
