"""Goes through a provider's consent page as a browser does: reads the form, ticks, sends it."""

from collections.abc import Collection
from html.parser import HTMLParser
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2


class _Form(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "form" and self.action is None:
            self.action = given.get("action", "")
        if tag == "input" and given.get("name"):
            self.fields.append((given.get("type") or "text", given["name"], given.get("value") or ""))


async def consent(
    url: str, address: str, *, decision: str = "allow", untick: Collection[str] = ()
) -> dict[str, str]:
    """What the provider sends back to the redirect address: code and state, or error."""
    async with httpx2.AsyncClient(trust_env=False) as browser:
        page = await browser.get(url)
        assert page.status_code == 200, page.text
        form = _Form()
        form.feed(page.text)
        body: dict[str, list[str]] = {"decision": [decision]}
        for kind, name, value in form.fields:
            if kind == "radio":
                body[name] = [address]
            elif not (kind == "checkbox" and any(word in value for word in untick)):
                body.setdefault(name, []).append(value)
        answer = await browser.post(urljoin(url, form.action or ""), data=body)
        assert answer.status_code in {302, 303}, answer.text
        query = parse_qs(urlsplit(answer.headers["location"]).query)
        return {name: values[0] for name, values in query.items()}
