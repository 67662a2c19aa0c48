"""Asks a notification address what Graph asks before it makes a subscription, and judges the answer alike."""

from typing import Final
from urllib.parse import quote_plus

import aiohttp

WAIT: Final = aiohttp.ClientTimeout(total=10)  # as long as Graph waits


async def find_fault(client: aiohttp.ClientSession, url: str, token: str) -> str | None:
    """Why Graph would not accept this address; None where it would."""
    try:
        async with client.post(
            f"{url}?validationToken={quote_plus(token)}",
            data=b"",
            headers={"Content-Type": "text/plain; charset=utf-8"},
            timeout=WAIT,
            allow_redirects=False,
        ) as answer:
            body = await answer.content.read(len(token) * 4 + 64)
    except TimeoutError:
        return "it does not answer within 10 seconds"
    except aiohttp.ClientConnectorDNSError:
        return "its host name is not known"
    except aiohttp.ClientConnectorCertificateError:
        return "its certificate is not accepted"
    except aiohttp.ClientError:
        return "it cannot be reached"
    if answer.status != 200:
        return f"it answers with {answer.status} instead of 200"
    if answer.content_type != "text/plain" or body != token.encode():
        return "it does not give the token back as plain text"
    return None
