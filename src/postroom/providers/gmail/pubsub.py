"""Pull Gmail's notifications from a Pub/Sub subscription, as a `ports.NotificationQueue`.

The alternative to pushes, which `push` verifies. Pulls over REST, with the token of a service account that
may read this one subscription.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from postroom.errors import (
    OperatorError,
    PostroomError,
    ProviderServerError,
    RateLimited,
    TokenRejected,
)
from postroom.model import Notification
from postroom.ports import PulledNotification, TokenSource
from postroom.providers.gmail.push import PubSubMessage, read_address
from postroom.providers.transport import HttpRequest, HttpResponse, Transport

SCOPE: Final = "https://www.googleapis.com/auth/pubsub"
MAX_MESSAGES: Final = 1000  # the limit of Pub/Sub
# Pub/Sub holds a request without messages for up to 90 seconds. The HTTP client gives up after 30.
WAIT_SECONDS: Final = 25.0


class _ReceivedMessage(msgspec.Struct, rename="camel"):
    ack_id: str
    message: PubSubMessage


class _PullResponse(msgspec.Struct, rename="camel"):
    received_messages: list[_ReceivedMessage] = []


@dataclass(frozen=True)
class PubSubQueue:
    transport: Transport
    url: str
    subscription: str
    tokens: TokenSource

    async def pull(self) -> Sequence[PulledNotification]:
        # Not repeatable: a lost response may have leased messages, which come again after their deadline.
        request = HttpRequest(
            "POST",
            f"{self.url}/v1/{self.subscription}:pull",
            json={"maxMessages": MAX_MESSAGES},
            repeatable=False,
        )
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                response = await self.transport.send(request, tokens=self.tokens)
        except TimeoutError:
            return ()
        return [
            PulledNotification(received.ack_id, Notification(address=address) if address else None)
            for received in response.read(_PullResponse).received_messages
            for address in [read_address(received.message)]
        ]

    async def acknowledge(self, receipts: Sequence[str]) -> None:
        await self.transport.send(
            HttpRequest(
                "POST", f"{self.url}/v1/{self.subscription}:acknowledge", json={"ackIds": list(receipts)}
            ),
            tokens=self.tokens,
        )


def to_error(response: HttpResponse) -> PostroomError | None:
    """The error that a response of Pub/Sub means; None for success."""
    match response.status:
        case status if status < 400:
            return None
        case 401:
            return TokenRejected("Pub/Sub rejects the access token of the service account, even a fresh one.")
        case 403:
            return OperatorError(
                "The service account of POSTROOM_PUBSUB_KEY may not pull from the Pub/Sub subscription."
                " Grant it roles/pubsub.subscriber on the subscription."
            )
        case 404:
            return OperatorError(
                "The Pub/Sub subscription does not exist. Create it, or correct POSTROOM_PUBSUB_SUBSCRIPTION."
            )
        case 400:
            return OperatorError(
                "The Pub/Sub subscription delivers by push and cannot be pulled from. Remove its endpoint"
                " (`gcloud pubsub subscriptions modify-push-config NAME --push-endpoint=`), or set"
                " POSTROOM_PUBSUB_DELIVERY to push."
            )
        case 429:
            return RateLimited("Pub/Sub limits the request rate.")
        case _:
            return ProviderServerError(f"Pub/Sub returned a server error (status {response.status}).")
