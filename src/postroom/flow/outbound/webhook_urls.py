"""Check the URLs of other applications that people enter: outgoing webhooks, Slack, Teams.

`providers.webhook_sender` decides for each connection whether its IP address is allowed.
"""

from urllib.parse import urlsplit

from postroom.errors import PermanentError


def check_url(url: str, *, allows_http: bool) -> None:
    """Raise unless requests can be sent to the URL.

    `allows_http`: POSTROOM_WEBHOOK_NETWORKS names networks for which plain http is allowed.
    """
    try:
        parts = urlsplit(url)
        usable = (
            parts.scheme in {"https", "http"}
            and bool(parts.hostname)
            and parts.username is None
            and not parts.fragment
            and (parts.port is None or parts.port > 0)
            and len(url) <= 2000
            and url.isascii()
            and url.isprintable()
            and " " not in url
        )
    except ValueError:
        usable = False
    if not usable:
        raise PermanentError("A webhook needs a URL such as https://app.example.org/postroom.")
    if urlsplit(url).scheme == "http" and not allows_http:
        raise PermanentError(
            "Plain http deliveries can be read in transit: use an https URL, or, for a receiver in your own"
            " network, set POSTROOM_WEBHOOK_NETWORKS."
        )
