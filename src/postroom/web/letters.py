"""Mail as a page: HTML of strangers, cleaned, without scripts and without remote loads.

Shown in a sandboxed frame whose own policy forbids every load but pictures that are inside the page.
"""

import base64
import html
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

import nh3

# Whatever the cleaning might miss cannot run, send or load: the frame has no rights and no sources.
POLICY: Final = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'self'; "
    "form-action 'none'; base-uri 'none'; sandbox allow-popups allow-popups-to-escape-sandbox"
)
_TAGS: Final = (nh3.ALLOWED_TAGS | {"font", "center"}) - {"area", "map"}
_STYLES: Final = {
    "background-color", "border", "border-bottom", "border-collapse", "border-color", "border-left",
    "border-right", "border-spacing", "border-style", "border-top", "border-width", "color", "font-family",
    "font-size", "font-style", "font-weight", "height", "letter-spacing", "line-height", "list-style-type",
    "margin", "margin-bottom", "margin-left", "margin-right", "margin-top", "max-width", "min-width",
    "padding", "padding-bottom", "padding-left", "padding-right", "padding-top", "text-align",
    "text-decoration",
    "text-indent", "text-transform", "vertical-align", "white-space", "width",
}  # fmt: skip
_ATTRIBUTES: Final[dict[str, set[str]]] = {
    **nh3.ALLOWED_ATTRIBUTES,
    "*": {"style", "align", "valign", "bgcolor", "dir", "lang", "title", "width", "height"},
    "img": {"src", "alt", "width", "height"},
    "a": {"href", "title"},
    "font": {"color", "face", "size"},
    "table": {"border", "cellpadding", "cellspacing", "width", "bgcolor", "align"},
}
_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
LARGEST_PICTURE: Final = 2 * 2**20
MOST_CHARACTERS: Final = 1_000_000


def frame(body_html: str | None, body_plain: str | None, pictures: Mapping[str, tuple[str, bytes]]) -> str:
    """A whole page with a message's body. `pictures` are the inline ones, by content id: type and bytes."""
    if body_html and body_html.strip():
        inside = cleaned(body_html[:MOST_CHARACTERS], pictures)
    else:
        inside = f"<pre>{html.escape((body_plain or '')[:MOST_CHARACTERS])}</pre>"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Message</title><style>'
        "body{font:15px/1.5 system-ui,sans-serif;margin:12px;color:#1a1f29;background:#fff}"
        "body{overflow-wrap:anywhere}"
        "pre{white-space:pre-wrap;font:inherit;margin:0}img{max-width:100%;height:auto}table{max-width:100%!important}"
        f"</style></head><body>{inside}</body></html>"
    )


def cleaned(body: str, pictures: Mapping[str, tuple[str, bytes]]) -> str:
    """What may be shown of a body: text, tables, pictures that came along, links that open elsewhere."""

    def allow(tag: str, attribute: str, value: str) -> str | None:
        if tag == "img" and attribute == "src":
            return _picture(value, pictures)
        if attribute == "style" and ("url(" in value.lower() or "\\" in value):
            return None
        return value

    return nh3.clean(
        body,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        attribute_filter=allow,
        url_schemes={"http", "https", "mailto", "cid", "data"},
        filter_style_properties=_STYLES,
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def _picture(source: str, pictures: Mapping[str, tuple[str, bytes]]) -> str | None:
    """Only what came with the message: a remote picture tells its sender that it was looked at."""
    if source.lower().startswith("cid:"):
        media_type, content = pictures.get(unquote(source[4:]), ("", b""))
        if media_type in _PICTURES and content:
            return f"data:{media_type};base64,{base64.b64encode(content).decode()}"
    if source.lower().startswith(tuple(f"data:{kind};base64," for kind in _PICTURES)):
        return source
    return None
