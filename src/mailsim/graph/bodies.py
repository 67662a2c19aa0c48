"""What Outlook makes of a message's text: HTML or plain, safe or not, its preview, its newest part. Pure."""

import re
from html import escape, unescape

_HEAD = '<meta http-equiv="Content-Type" content="text/html; charset=utf-8">'
_UNSAFE = re.compile(
    r"<\s*/?(?:script|iframe|object|embed|applet|form|input|button|base|link|frame|frameset)\b"
    r"|\son\w+\s*=|javascript:|vbscript:",
    re.IGNORECASE,
)
_BLOCKS = re.compile(
    r"<\s*(script|iframe|object|applet|frameset)\b[^>]*>.*?(?:<\s*/\s*\1\s*>|\Z)", re.IGNORECASE | re.DOTALL
)
_TAGS = re.compile(
    r"<\s*/?(?:script|iframe|object|embed|applet|form|input|button|base|link|frame|frameset)\b[^>]*(?:>|\Z)",
    re.IGNORECASE,
)
_EVENTS = re.compile(r"""(<[^>]*?)\son\w+\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]+)""", re.IGNORECASE)
_SCHEMES = re.compile(r"(?:javascript|vbscript):", re.IGNORECASE)
_META = re.compile(r"<meta[^>]*charset[^>]*>", re.IGNORECASE)
_HTML = re.compile(r"<html[\s>]", re.IGNORECASE)
_HEAD_OPEN = re.compile(r"<head(?:\s[^>]*)?>", re.IGNORECASE)
_HIDDEN = re.compile(r"<(style|script|head|title)\b.*?</\1\s*>|<!--.*?-->", re.IGNORECASE | re.DOTALL)
_BREAK = re.compile(r"<\s*(?:br|/p|/div|/tr|/h[1-6]|/li|hr)\b[^>]*>", re.IGNORECASE)
_ANY_TAG = re.compile(r"<[^>]*>")
_SPACES = re.compile(r"[ \t\xa0]*\n[ \t\xa0\n]*")
_BLANKS = re.compile(r"\s+")
_QUOTE_HTML = re.compile(
    r"<blockquote\b|<div[^>]*class=\"?(?:gmail_quote|moz-cite|OutlookMessageHeader)|<hr\b|<div[^>]*id=\"?(?:appendonsend|divRplyFwdMsg)",
    re.IGNORECASE,
)
_QUOTE_TEXT = re.compile(
    r"^(?:>|-{2,}\s*(?:Original|Forwarded)|_{10,}|From: .+\r?\n(?:Sent|Date): |On .{5,80} wrote:)",
    re.MULTILINE,
)
PREVIEW = 255


def safe(html: str) -> str:
    """Without what could run: scripts, frames, forms, handlers."""
    if not _UNSAFE.search(html):
        return html
    html = _TAGS.sub("", _BLOCKS.sub("", html))
    for _ in range(20):
        cleaned = _EVENTS.sub(r"\1", html)
        if cleaned == html:
            break
        html = cleaned
    return _SCHEMES.sub("", html)


def whole(html: str) -> str:
    """A complete page, declared as UTF-8, whatever the sender declared."""
    html = _META.sub("", html, count=1)
    if _HTML.search(html, 0, 4096) is None:
        return f"<html><head>\r\n{_HEAD}</head><body>{html}</body></html>"
    opened = _HEAD_OPEN.search(html, 0, 8192)
    if opened is None:
        start = _HTML.search(html, 0, 4096)
        end = html.find(">", start.start()) + 1 if start else 0
        return f"{html[:end]}<head>\r\n{_HEAD}</head>{html[end:]}"
    return f"{html[: opened.end()]}\r\n{_HEAD}{html[opened.end() :]}"


def from_text(text: str) -> str:
    """Plain text as Outlook shows it where HTML is asked for."""
    lines = escape(text, quote=False).replace("\r\n", "\n").replace("\n", "<br>\r\n")
    return f'<html><head>\r\n{_HEAD}</head><body><div class="PlainText">{lines}</div></body></html>'


def to_text(html: str) -> str:
    """HTML as plain text: no mark-up, line breaks where blocks end."""
    text = _BREAK.sub("\n", _BLANKS.sub(" ", _HIDDEN.sub("", html)))
    text = unescape(_ANY_TAG.sub("", text))
    return _SPACES.sub("\r\n", text).strip()


def preview(html: str | None, text: str | None) -> str:
    """The first 255 characters of the text, on one line."""
    if html is None:
        source = (text or "")[:2000]
    else:
        source = to_text(html[:6000])
        if len(source) < PREVIEW and len(html) > 6000:
            source = to_text(html)
    return _BLANKS.sub(" ", source).strip()[:PREVIEW]


def unique_html(html: str) -> str:
    """What is new in this message: everything before the first quotation."""
    found = _QUOTE_HTML.search(html)
    return html if found is None else html[: found.start()] + "</body></html>"


def unique_text(text: str) -> str:
    found = _QUOTE_TEXT.search(text)
    return text if found is None else text[: found.start()].rstrip()
