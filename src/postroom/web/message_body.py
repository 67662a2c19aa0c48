"""Mail as a page, in a sandboxed frame whose own policy forbids every load but pictures inside the page."""

import html
from collections.abc import Mapping
from typing import Final

from postroom.documents.files.html_sanitizer import MOST_CHARACTERS, Letter
from postroom.documents.sandbox.file_sandbox import Readers
from postroom.errors import UnreadableFile

# Whatever the cleaning might miss cannot run, send or load: the frame has no rights and no sources.
POLICY: Final = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'self'; "
    "form-action 'none'; base-uri 'none'; sandbox allow-popups allow-popups-to-escape-sandbox"
)
_PLAIN_TEXT_NOTICE: Final = (
    "<p><em>The formatted text of this message cannot be shown; this is its plain text.</em></p>"
)


async def render_frame(
    readers: Readers,
    body_html: str | None,
    body_plain: str | None,
    pictures: Mapping[str, tuple[str, bytes]],
) -> str:
    """A whole page with a message's body. `pictures` are the inline ones, by content id: type and bytes."""
    inside = f"<pre>{html.escape((body_plain or '')[:MOST_CHARACTERS])}</pre>"
    if body_html and body_html.strip():
        try:
            inside = await readers.cleaned(Letter(body_html[:MOST_CHARACTERS], pictures))
        except UnreadableFile:
            inside = _PLAIN_TEXT_NOTICE + inside
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Message</title><style>'
        "body{font:15px/1.5 system-ui,sans-serif;margin:12px;color:#1a1f29;background:#fff}"
        "body{overflow-wrap:anywhere}"
        "pre{white-space:pre-wrap;font:inherit;margin:0}img{max-width:100%;height:auto}table{max-width:100%!important}"
        f"</style></head><body>{inside}</body></html>"
    )
