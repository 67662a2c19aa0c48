"""Validate a notification URL the way Graph does before it creates a subscription: by a request."""

from dataclasses import dataclass
from secrets import token_urlsafe
from typing import Final
from urllib.parse import quote_plus

import aiohttp
import msgspec

from postroom.model import Secret

WAIT: Final = aiohttp.ClientTimeout(total=10)  # Graph's own time limit


@dataclass(frozen=True, slots=True)
class NotificationUrlChecker:
    client: aiohttp.ClientSession

    async def find_handshake_fault(self, url: str) -> str | None:
        """Why Graph would reject this notification URL; None if it would accept it."""
        token = f"Validation: of postroom itself {token_urlsafe(16)} +1"
        response = await _post(
            self.client,
            f"{url}?validationToken={quote_plus(token)}",
            b"",
            "text/plain; charset=utf-8",
            len(token),
        )
        if isinstance(response, str):
            return response
        status, content_type, body = response
        if status != 200:
            return f"it responds with status {status} instead of 200"
        if content_type != "text/plain" or body != token.encode():
            return "it does not return the validation token as plain text"
        return None

    async def find_push_fault(self, url: str, secret: Secret) -> str | None:
        """Why our endpoint rejects a notification with this secret as client state; None if it accepts it."""
        state = secret.reveal()
        item = {"changeType": "updated", "clientState": state, "resource": "", "subscriptionId": ""}
        response = await _post(
            self.client, url, msgspec.json.encode({"value": [item]}), "application/json", 0
        )
        if isinstance(response, str):
            return response
        if response[0] == 401:
            return (
                "it does not know the secret of a subscription that was just added; it uses another database"
            )
        return None if response[0] == 202 else f"it responds with status {response[0]} instead of 202"


async def _post(
    client: aiohttp.ClientSession, url: str, body: bytes, content_type: str, max_characters: int
) -> tuple[int, str, bytes] | str:
    """Status, content type and body of the response; in words, why there is none."""
    try:
        async with client.post(
            url, data=body, headers={"Content-Type": content_type}, timeout=WAIT, allow_redirects=False
        ) as response:
            received = await response.content.read(max_characters * 4 + 64)
            return response.status, response.content_type, received
    except TimeoutError:
        return "it does not respond within 10 seconds"
    except aiohttp.ClientConnectorDNSError:
        return "its host name cannot be resolved"
    except aiohttp.ClientConnectorCertificateError:
        return "its certificate is not trusted"
    except aiohttp.ClientError:
        return "it cannot be reached"
