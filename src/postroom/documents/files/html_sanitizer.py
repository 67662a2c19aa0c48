"""Sanitizes the HTML of messages: no scripts, no remote content. Runs in the sandbox.

A few kilobytes of nested tags can keep an HTML5 parser busy for minutes, and a thread cannot be killed.
"""

import base64
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

import msgspec
import nh3

from postroom.documents.sandbox.file_limits import FileLimits
from postroom.documents.sandbox.ipc import TaskRequest
from postroom.errors import UnreadableFile

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
_IMAGE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MAX_CHARACTERS: Final = 1_000_000
# The total size of inline images, each counted as often as it is shown.
INLINE_IMAGE_BYTES: Final = 10_000_000
_RESULT_BYTES: Final = 20_000_000


class MessageHtml(msgspec.Struct, frozen=True):
    """The HTML body of a message, and its inline images by content id: media type and bytes."""

    body: str
    inline_images: Mapping[str, tuple[str, bytes]]


encode_message_html: Final = msgspec.msgpack.Encoder().encode
_decode_message_html: Final = msgspec.msgpack.Decoder(MessageHtml).decode


def sanitize(content: bytes, _request: TaskRequest, _limits: FileLimits) -> bytes:
    """Keep text, tables, inline images, and links that open in a new tab."""
    message = _decode_message_html(content)
    inline_images = _InlineImages(message.inline_images)

    def allow(tag: str, attribute: str, value: str) -> str | None:
        if tag == "img" and attribute == "src":
            return inline_images.source(value)
        if attribute == "style" and ("url(" in value.lower() or "\\" in value):
            return None
        return value

    shown = nh3.clean(
        message.body[:MAX_CHARACTERS],
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        attribute_filter=allow,
        url_schemes={"http", "https", "mailto", "cid", "data"},
        filter_style_properties=_STYLES,
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    ).encode()
    if len(shown) > _RESULT_BYTES:
        raise UnreadableFile("The message is too large to be shown.")
    return shown


class _InlineImages:
    """The images that came with the message.

    A remote image would reveal to its sender that it was viewed.
    """

    def __init__(self, images: Mapping[str, tuple[str, bytes]]) -> None:
        self._images = images
        self._encoded: dict[str, str] = {}
        self._bytes_left = INLINE_IMAGE_BYTES

    def source(self, value: str) -> str | None:
        if value.lower().startswith("cid:"):
            return self._encode_image(unquote(value[4:]))
        inside = value.lower().startswith(tuple(f"data:{kind};base64," for kind in _IMAGE_TYPES))
        return value if inside else None

    def _encode_image(self, content_id: str) -> str | None:
        media_type, content = self._images.get(content_id, ("", b""))
        if media_type not in _IMAGE_TYPES or not 0 < len(content) <= self._bytes_left:
            return None
        self._bytes_left -= len(content)
        if content_id not in self._encoded:
            self._encoded[content_id] = f"data:{media_type};base64,{base64.b64encode(content).decode()}"
        return self._encoded[content_id]
