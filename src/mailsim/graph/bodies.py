"""What Outlook makes of a message's text: HTML or plain, safe or not, its preview, its newest part. Pure."""

import re
from html import escape, unescape

_HEAD = '<meta http-equiv="Content-Type" content="text/html; charset=utf-8">'
_UNSAFE = re.compile(r"<\s*(?:/?script|iframe|object|embed|applet|form|input|button|base|link|frame)")
_EVENT = re.compile(r"on[a-z]{2,24}\s*=")
_BLOCKS = re.compile(
    r"<\s*(script|iframe|object|applet|frameset)\b[^>]*>.*?(?:<\s*/\s*\1\s*>|\Z)", re.IGNORECASE | re.DOTALL
)
_TAGS = re.compile(
    r"<\s*/?(?:script|iframe|object|embed|applet|form|input|button|base|link|frame|frameset)\b[^>]*(?:>|\Z)",
    re.IGNORECASE,
)
_EVENTS = re.compile(r"""(<[^>]*?)\son\w+\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]+)""", re.IGNORECASE)
_SCHEMES = re.compile(r"(?:javascript|vbscript):", re.IGNORECASE)
_HIDDEN = re.compile(r"<(style|script|head|title)\b.*?</\1\s*>|<!--.*?-->", re.IGNORECASE | re.DOTALL)
_HIDING = re.compile(r"<(?:style|script|head|title)", re.IGNORECASE)
_BREAK = re.compile(r"<\s*(?:br|/p|/div|/tr|/h[1-6]|/li|hr)\b[^>]*>", re.IGNORECASE)
_ANY_TAG = re.compile(r"<[^>]*>")
_SPACES = re.compile(r"[ \t\xa0]*\n[ \t\xa0\n]*")
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
    low = html.lower()
    if not _UNSAFE.search(low) and "script:" not in low and not _EVENT.search(low):
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
    top = html[:8192].lower()
    meta = top.find("<meta")
    while meta != -1:
        end = top.find(">", meta) + 1
        if end and "charset" in top[meta:end]:
            html, top = html[:meta] + html[end:], top[:meta] + top[end:]
            break
        meta = top.find("<meta", meta + 5)
    if "<html" not in top:
        return f"<html><head>\r\n{_HEAD}</head><body>{html}</body></html>"
    for tag, before, after in (("<head", "", ""), ("<html", "<head>", "</head>")):
        place = top.find(tag)
        end = top.find(">", place) + 1
        if place != -1 and end:
            return f"{html[:end]}{before}\r\n{_HEAD}{after}{html[end:]}"
    return html


def from_text(text: str) -> str:
    """Plain text as Outlook shows it where HTML is asked for."""
    lines = escape(text, quote=False).replace("\r\n", "\n").replace("\n", "<br>\r\n")
    return f'<html><head>\r\n{_HEAD}</head><body><div class="PlainText">{lines}</div></body></html>'


def to_text(html: str) -> str:
    """HTML as plain text: no mark-up, line breaks where blocks end."""
    if "<!--" in html or _HIDING.search(html):
        html = _HIDDEN.sub("", html)
    text = _BREAK.sub("\n", " ".join(html.split()))
    text = unescape(_ANY_TAG.sub("", text))
    return _SPACES.sub("\r\n", text).strip()


def preview(html: str | None, text: str | None) -> str:
    """The first 255 characters of the text, on one line."""
    if html is None:
        return " ".join((text or "")[:1000].split())[:PREVIEW]
    start = max(html.find("<body"), 0)
    for length in (1500, 6000, len(html)):
        source = " ".join(to_text(html[start : start + length]).split())
        if len(source) >= PREVIEW + 20 or start + length >= len(html):  # the end may hold half a tag
            break
    return source[:PREVIEW]


def unique_html(html: str) -> str:
    """What is new in this message: everything before the first quotation."""
    found = _QUOTE_HTML.search(html)
    return html if found is None else html[: found.start()] + "</body></html>"


def unique_text(text: str) -> str:
    found = _QUOTE_TEXT.search(text)
    return text if found is None else text[: found.start()].rstrip()
