"""Message HTML is sanitized, and the cost of one message is limited."""

import base64

import pytest

from postroom.documents.files.html_sanitizer import INLINE_IMAGE_BYTES, MessageHtml
from postroom.documents.sandbox.file_limits import FileLimits
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.errors import UnreadableFile

PICTURE = ("image/png", b"\x89PNG" + bytes(200_000))
# Takes minutes: every paragraph opens all of them again.
ENDLESS = "".join(f"<font color=i{n}>" for n in range(20_000)) + "<p>x" * 20_000


@pytest.fixture
async def readers():
    async with FileSandbox(FileLimits(html_cpu_seconds=1), parallel=1) as made:
        yield made


async def test_repeated_inline_images_are_shown_up_to_the_limit(readers):
    shown = await readers.sanitize_html(MessageHtml("<img src=cid:a>" * 500, {"a": PICTURE}))
    assert shown.count("<img") == 500
    assert shown.count("data:image/png;base64,") == INLINE_IMAGE_BYTES // len(PICTURE[1])
    assert base64.b64encode(PICTURE[1]).decode() in shown


async def test_only_attached_images_are_shown(readers):
    given = {"a@b": ("image/gif", b"GIF89a"), "c": ("image/svg+xml", b"<svg/>")}
    sources = ("cid:a%40b", "cid:c", "https://example.org/x.png", "data:text/html;base64,")
    shown = await readers.sanitize_html(
        MessageHtml("".join(f"<img src='{each}'>" for each in sources), given)
    )
    assert shown == '<img src="data:image/gif;base64,R0lGODlh"><img><img><img>'


async def test_html_that_takes_too_long_does_not_block_the_next_message(readers):
    with pytest.raises(UnreadableFile, match="more than 1 seconds"):
        await readers.sanitize_html(MessageHtml(ENDLESS, {}))
    assert await readers.sanitize_html(MessageHtml("<p onclick=x>Hello", {})) == "<p>Hello</p>"
