"""The body of a message as text, and as an HTML page for a sandboxed frame: no scripts, no remote content.

The route is in `mail`, the sanitizer in `documents.files.html_sanitizer`.
"""

import asyncio
import html
from collections.abc import Mapping
from typing import Final

from postroom.documents.files.html_sanitizer import MAX_CHARACTERS, MessageHtml
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.errors import UnreadableFile
from postroom.mime.text import html_to_text

# A second line of defense behind the HTML sanitizer: the frame may not run, send or load anything.
POLICY: Final = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'self'; "
    "form-action 'none'; base-uri 'none'; sandbox allow-popups allow-popups-to-escape-sandbox"
)
_PLAIN_TEXT_NOTICE: Final = (
    "<p><em>The HTML of this message cannot be displayed. This is its plain text.</em></p>"
)


def get_text(body_plain: str | None, body_html: str | None) -> str | None:
    """Return the plain body, or else the text of the HTML. Most messages of Outlook have only HTML."""
    if body_html is None or (body_plain and not body_plain.isspace()):
        return body_plain
    return html_to_text(body_html, most=len(body_html))


async def render_frame(
    sandbox: FileSandbox,
    body_html: str | None,
    body_plain: str | None,
    images: Mapping[str, tuple[str, bytes]],
) -> str:
    """Render the body as a complete page. `images` maps the content ID of inline images to type and bytes."""
    try:
        if body_html and body_html.strip():
            content = await sandbox.sanitize_html(MessageHtml(body_html[:MAX_CHARACTERS], images))
        else:
            content = _render_text(body_plain)
    except UnreadableFile:
        text = await asyncio.to_thread(get_text, body_plain, body_html)
        content = _PLAIN_TEXT_NOTICE + _render_text(text)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Message</title><style>'
        "body{font:15px/1.5 system-ui,sans-serif;margin:12px;color:#1a1f29;background:#fff}"
        "body{overflow-wrap:anywhere}"
        "pre{white-space:pre-wrap;font:inherit;margin:0}img{max-width:100%;height:auto}table{max-width:100%!important}"
        f"</style></head><body>{content}</body></html>"
    )


def _render_text(text: str | None) -> str:
    return f"<pre>{html.escape((text or '')[:MAX_CHARACTERS])}</pre>"
