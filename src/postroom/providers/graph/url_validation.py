"""Validate a notification URL the way Graph does before it creates a subscription: by a request."""

from typing import Final
from urllib.parse import quote_plus

import aiohttp

WAIT: Final = aiohttp.ClientTimeout(total=10)  # Graph's own time limit


async def find_fault(client: aiohttp.ClientSession, url: str, token: str) -> str | None:
    """Why Graph would reject this URL; None if it would accept it."""
    try:
        async with client.post(
            f"{url}?validationToken={quote_plus(token)}",
            data=b"",
            headers={"Content-Type": "text/plain; charset=utf-8"},
            timeout=WAIT,
            allow_redirects=False,
        ) as response:
            body = await response.content.read(len(token) * 4 + 64)
    except TimeoutError:
        return "it does not respond within 10 seconds"
    except aiohttp.ClientConnectorDNSError:
        return "its host name cannot be resolved"
    except aiohttp.ClientConnectorCertificateError:
        return "its certificate is not trusted"
    except aiohttp.ClientError:
        return "it cannot be reached"
    if response.status != 200:
        return f"it responds with status {response.status} instead of 200"
    if response.content_type != "text/plain" or body != token.encode():
        return "it does not return the validation token as plain text"
    return None
