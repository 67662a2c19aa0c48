"""Each page links to the part of the help page that explains it."""

import re

import pytest

from postroom.web.pages import ADMIN, MORE, OPERATOR
from postroom.web.pages import PAGES as FIRST
from web.test_review_checks import api, ask

__all__ = ["api", "ask"]


def find_topic(page):
    """The part of the help page that a page links to."""
    [link] = re.findall(r'<a class="help" href="/help#([^"]+)"', page)
    return link


@pytest.mark.parametrize("path", [path for path, _ in FIRST + MORE + ADMIN + OPERATOR])
async def test_page_links_to_the_topic_that_explains_it(visitor, path):
    topic = find_topic((await visitor.get(path)).text)
    text = (await visitor.get("/help")).text
    assert topic == (path[1:] or "overview")
    assert f'<section class="tile below" id="{topic}"' in text


async def test_review_page_has_a_topic_of_its_own(visitor, ask):
    _, document = await ask()
    assert find_topic((await visitor.get(f"/documents/{document}")).text) == "review"
    assert 'id="review"' in (await visitor.get("/help")).text


async def test_each_topic_links_to_its_documentation(visitor):
    text = (await visitor.get("/help")).text
    topics = re.findall(r'<section class="tile below" id="([^"]+)".*?</section>', text, re.DOTALL)
    links = re.findall(r'<p class="quiet">More: <a href="/help/docs/([^"]+)">([^<]+)</a>', text)
    assert len(links) == len(topics) > 20
    assert ("how-to/google.md", "Connect Gmail") in links
    assert not re.search(r"[\w-]+\.md\b(?!\">)", text)
    assert "http" not in re.sub(r"<svg.*?</svg>", "", text)
