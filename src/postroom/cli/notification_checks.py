"""Checks of `doctor` and `subscriptions check`: how each provider notifies this Postroom, and why.

They read the settings only.
"""

from postroom.cli.doctor_check import DoctorCheck, DoctorCheckState
from postroom.config import PubSubDelivery, Settings

_SET_URL = "Set POSTROOM_PUBLIC_URL to the https URL of the web process"


def is_gmail_configured(settings: Settings) -> bool:
    return bool(settings.google_client_id and settings.google_client_secret and settings.pubsub_topic)


def is_gmail_pulled(settings: Settings) -> bool:
    return is_gmail_configured(settings) and settings.pubsub_delivery is PubSubDelivery.PULL


def check_push_proof(settings: Settings) -> DoctorCheck | None:
    """Check that Gmail pushes can be verified. None if Gmail is not configured, or does not push."""
    if not is_gmail_configured(settings) or is_gmail_pulled(settings):
        return None
    if settings.pubsub_audience is None and settings.pubsub_token is None:
        remedy = (
            "Set POSTROOM_PUBSUB_AUDIENCE and POSTROOM_PUBSUB_SERVICE_ACCOUNT as in the Pub/Sub subscription,"
            " or POSTROOM_PUBSUB_TOKEN."
        )
        found = "none is set: every Gmail push is rejected with status 403"
        return DoctorCheck("push proof", DoctorCheckState.FAIL, found, remedy)
    signed = f"tokens signed for {settings.pubsub_audience}" if settings.pubsub_audience else None
    shared = "a shared token" if settings.pubsub_token else None
    proofs = " and ".join(proof for proof in (signed, shared) if proof)
    return DoctorCheck("push proof", DoctorCheckState.OK, f"Gmail pushes are verified by {proofs}")


def check_gmail(settings: Settings) -> DoctorCheck | None:
    """How Gmail's notifications arrive, and why so. None if Gmail is not configured."""
    if not is_gmail_configured(settings):
        return None
    if is_gmail_pulled(settings):
        found = (
            f"workers pull notifications from {settings.pubsub_subscription},"
            " because POSTROOM_PUBSUB_DELIVERY is pull"
        )
        return DoctorCheck("gmail", DoctorCheckState.OK, found)
    if settings.public_url:
        found = (
            f"Pub/Sub pushes notifications to {settings.public_url}/webhooks/gmail,"
            " because POSTROOM_PUBSUB_DELIVERY is push"
        )
        return DoctorCheck("gmail", DoctorCheckState.OK, found)
    found = _describe_sweeps(settings, settings.gmail_sweep_minutes)
    return DoctorCheck(
        "gmail", DoctorCheckState.WARN, found, f"{_SET_URL}, or POSTROOM_PUBSUB_DELIVERY to pull."
    )


def check_outlook(settings: Settings) -> DoctorCheck:
    """How Microsoft's notifications arrive, and why so."""
    if settings.public_url:
        found = f"Microsoft Graph pushes notifications to {settings.public_url}/webhooks/outlook"
        return DoctorCheck("outlook", DoctorCheckState.OK, found)
    # Microsoft offers nothing to pull: this is a way to run, and not a mistake.
    return DoctorCheck(
        "outlook", DoctorCheckState.OK, _describe_sweeps(settings, settings.outlook_sweep_minutes)
    )


def _describe_sweeps(settings: Settings, usual_minutes: float) -> str:
    minutes = min(usual_minutes, settings.unpushed_sweep_minutes)
    return (
        f"no notifications, because POSTROOM_PUBLIC_URL is not set; mailboxes are swept every {minutes:g} min"
    )
