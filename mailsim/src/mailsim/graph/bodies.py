"""What Outlook makes of a message's text: HTML or plain, safe or not, its preview, its newest part. Pure."""

import re
from html import unescape

_HEAD = '<meta http-equiv="Content-Type" content="text/html; charset=utf-8">'
_UNSAFE = re.compile(rb"<\s*(?:/?script|iframe|object|embed|applet|form|input|button|base|link|frame)")
_EVENT = re.compile(rb"on[a-z]{2,24}\s*=")
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
_CHARSET = re.compile(r"<meta[^>]*?charset[^>]*>", re.IGNORECASE)
_PAGE = re.compile(r"<html[^>]*>?", re.IGNORECASE)
_PAGE_HEAD = re.compile(r"<head(?=[\s>/])[^>]*>", re.IGNORECASE)
_BARE = re.compile(r"\n(?<!\r\n)")
_QUOTE_HTML = re.compile(
    r"<blockquote\b|<div[^>]*class=\"?(?:gmail_quote|moz-cite|OutlookMessageHeader)|<hr\b|<div[^>]*id=\"?(?:appendonsend|divRplyFwdMsg)",
    re.IGNORECASE,
)
_QUOTE_TEXT = re.compile(
    r"^(?:>|-{2,}\s*(?:Original|Forwarded)|_{10,}|From: .+\r?\n(?:Sent|Date): |On .{5,80} wrote:)",
    re.MULTILINE,
)
_TOP = 8192  # characters within which a page says what it is
PREVIEW = 255


def safe(html: str) -> str:
    """Without what could run: scripts, frames, forms, handlers."""
    low = html.encode("utf-8", "replace").lower()  # far cheaper than the lower case of text
    if not _UNSAFE.search(low) and b"script:" not in low and not _EVENT.search(low):
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
    if declared := _CHARSET.search(html, 0, _TOP):
        html = html[: declared.start()] + html[declared.end() :]
    page = _PAGE.search(html, 0, _TOP)
    if page is None:
        return f"<html><head>\r\n{_HEAD}</head><body>{html}</body></html>"
    if head := _PAGE_HEAD.search(html, 0, _TOP):
        return f"{html[: head.end()]}\r\n{_HEAD}{html[head.end() :]}"
    return f"{html[: page.end()]}<head>\r\n{_HEAD}</head>{html[page.end() :]}"


def from_text(text: str) -> str:
    """Plain text as Outlook shows it where HTML is asked for."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        if character in text:  # to look is far cheaper than to replace nothing
            text = text.replace(character, entity)
    if _BARE.search(text):
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    lines = text.replace("\r", "<br>\r")
    return f'<html><head>\r\n{_HEAD}</head><body><div class="PlainText">{lines}</div></body></html>'


def to_text(html: str) -> str:
    """HTML as plain text: no mark-up, line breaks where blocks end."""
    if "<!--" in html or _HIDING.search(html):
        html = _HIDDEN.sub("", html)
    text = _BREAK.sub("\n", " ".join(html.split()))
    text = unescape(_ANY_TAG.sub("", text))
    return _SPACES.sub("\r\n", text).strip()


def preview(text: str) -> str:
    """The first 255 characters of the text, on one line."""
    for length in (350, 1000):
        source = " ".join(text[:length].split())
        if len(source) >= PREVIEW:
            break
    return source[:PREVIEW]


def html_preview(html: str) -> str:
    """The same of a page."""
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
