"""Conversions of message bodies as in Outlook: HTML and text, sanitizing, preview, unquoted part.

Pure functions on strings.
"""

import re
from html import unescape

_HEAD = '<meta http-equiv="Content-Type" content="text/html; charset=utf-8">'
_UNSAFE = re.compile(rb"<\s*(?:/?script|iframe|object|embed|applet|form|input|button|base|link|frame)")
_EVENT = re.compile(rb"on[a-z]{2,24}\s*=")
_BLOCKS = re.compile(
    r"<\s*(script|iframe|object|applet|frameset)\b[^>]*(?:>|\Z).*?(?:<\s*/\s*\1\s*>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_TAGS = re.compile(
    r"<\s*/?(?:script|iframe|object|embed|applet|form|input|button|base|link|frame|frameset)\b[^>]*(?:>|\Z)",
    re.IGNORECASE,
)
_EVENTS = re.compile(r"""(<[^>]*?)\son\w+\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]+)""", re.IGNORECASE)
_SCHEMES = re.compile(r"(?:javascript|vbscript):", re.IGNORECASE)
# An unclosed element is hidden to the end of the text: searching for each end would take quadratic time.
_HIDDEN = re.compile(
    r"<(style|script|head|title)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.IGNORECASE | re.DOTALL
)
_HIDING = re.compile(r"<(?:style|script|head|title)", re.IGNORECASE)
_BREAK = re.compile(r"<\s*(?:br|/p|/div|/tr|/h[1-6]|/li|hr)\b[^>]*(?:>|\Z)", re.IGNORECASE)
_ANY_TAG = re.compile(r"<[^>]*(?:>|\Z)")
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
_TOP = 8192  # characters in which to look for <html>, <head> and charset
PREVIEW = 255


def sanitize_html(html: str) -> str:
    """Remove active content: scripts, frames, forms, event handlers."""
    low = html.encode("utf-8", "replace").lower()  # much cheaper than str.lower
    if not _UNSAFE.search(low) and b"script:" not in low and not _EVENT.search(low):
        return html
    html = _TAGS.sub("", _BLOCKS.sub("", html))
    for _ in range(20):
        cleaned = _EVENTS.sub(r"\1", html)
        if cleaned == html:
            break
        html = cleaned
    return _SCHEMES.sub("", html)


def complete_page(html: str) -> str:
    """Return a complete page that declares UTF-8, whatever the sender declared."""
    if declared := _CHARSET.search(html, 0, _TOP):
        html = html[: declared.start()] + html[declared.end() :]
    page = _PAGE.search(html, 0, _TOP)
    if page is None:
        return f"<html><head>\r\n{_HEAD}</head><body>{html}</body></html>"
    if head := _PAGE_HEAD.search(html, 0, _TOP):
        return f"{html[: head.end()]}\r\n{_HEAD}{html[head.end() :]}"
    return f"{html[: page.end()]}<head>\r\n{_HEAD}</head>{html[page.end() :]}"


def text_to_html(text: str) -> str:
    """Convert plain text as Outlook does when a client requests HTML."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        if character in text:  # the check is much cheaper than a replace without matches
            text = text.replace(character, entity)
    if _BARE.search(text):
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    lines = text.replace("\r", "<br>\r")
    return f'<html><head>\r\n{_HEAD}</head><body><div class="PlainText">{lines}</div></body></html>'


def html_to_text(html: str) -> str:
    """Convert HTML to plain text, with line breaks at the end of blocks."""
    if "<!--" in html or _HIDING.search(html):
        html = _HIDDEN.sub("", html)
    text = _BREAK.sub("\n", " ".join(html.split()))
    text = unescape(_ANY_TAG.sub("", text))
    return _SPACES.sub("\r\n", text).strip()


def preview_text(text: str) -> str:
    """Return the first 255 characters of the text on one line."""
    for length in (350, 1000):
        source = " ".join(text[:length].split())
        if len(source) >= PREVIEW:
            break
    return source[:PREVIEW]


def preview_html(html: str) -> str:
    """Return the first 255 characters of a page's text on one line."""
    start = max(html.find("<body"), 0)
    for length in (1500, 6000, len(html)):
        source = " ".join(html_to_text(html[start : start + length]).split())
        if len(source) >= PREVIEW + 20 or start + length >= len(html):  # the end may contain half a tag
            break
    return source[:PREVIEW]


def cut_quoted_html(html: str) -> str:
    """Return everything before the first quoted message."""
    quote = _QUOTE_HTML.search(html)
    return html if quote is None else html[: quote.start()] + "</body></html>"


def cut_quoted_text(text: str) -> str:
    quote = _QUOTE_TEXT.search(text)
    return text if quote is None else text[: quote.start()].rstrip()
