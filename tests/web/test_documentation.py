"""The documentation inside the product: links, anchors, access, and text that tries to be markup."""

import re
from collections import deque
from html import unescape
from posixpath import dirname

import pytest

from postroom.web import documentation

PREFIX = documentation.PREFIX


def find_links(text):
    return [unescape(link) for link in re.findall(r'<a [^>]*?href="([^"]+)"', text)]


async def crawl(visitor):
    """Every page that the help page leads to, by path."""
    shown, waiting = {}, deque(["/help"])
    while waiting:
        path = waiting.popleft()
        if path not in shown:
            answer = await visitor.get(path)
            assert answer.status_code == 200, path
            shown[path] = answer.text
            links = (link.partition("#")[0] for link in find_links(answer.text))
            waiting.extend(link for link in links if link.startswith(PREFIX))
    return shown


async def test_every_link_and_anchor_of_the_documentation_resolves(visitor):
    shown = await crawl(visitor)
    assert set(shown) == {"/help", *(PREFIX + name for name in documentation.FILES)}
    anchors = 0
    for path, text in shown.items():
        ids = re.findall(r' id="([^"]+)"', text)
        assert len(ids) == len(set(ids)), path
        for link in find_links(text) if path != "/help" else ():
            target, hash_sign, anchor = link.partition("#")
            assert link.startswith(("/", "#", "https://")), (path, link)
            if hash_sign and target.startswith(PREFIX):
                anchors += 1
                assert f' id="{anchor}"' in shown[target], (path, link)
        assert "<img" not in text.partition("<main")[2], path
    assert anchors > 20


async def test_each_page_is_listed_once_beside_every_page(visitor):
    index = (await visitor.get(PREFIX)).text.partition('<nav id="all-pages"')[2]
    listed = [link.removeprefix(PREFIX) for link in find_links(index) if link.startswith(PREFIX)]
    assert sorted(listed) == sorted(documentation.FILES)


async def test_links_to_files_that_are_not_shipped_are_plain_text(visitor):
    text = (await visitor.get(f"{PREFIX}README.md")).text
    for name in ("requirements.md", "ARCHITECTURE.md", "decisions"):
        assert name in text
        assert f">{name}</a>" not in text
    assert f'<a href="{PREFIX}glossary.md">glossary.md</a>' in text


async def test_page_has_its_title(visitor):
    text = (await visitor.get(f"{PREFIX}settings.md")).text
    assert "<title>Settings · Postroom</title>" in text
    assert '<link rel="icon" href="/static/mark.svg"' in text
    assert text.count("<h1") == 1


@pytest.mark.parametrize(
    "name",
    [
        "%2e%2e/pyproject.toml",
        "%2e%2e/README.md",
        "how-to/%2e%2e/%2e%2e/SECURITY.md",
        "how-to/%2e%2e/README.md",
        "%2Fetc/passwd",
        "how-to",
        "proof.md",
        "decisions/README.md",
        "settings.md%00",
    ],
)
async def test_only_the_listed_files_are_served(visitor, name):
    answer = await visitor.get(PREFIX + name)
    assert answer.status_code == 404
    assert "[build-system]" not in answer.text


async def test_visitor_without_a_session_is_asked_to_sign_in(visitor):
    visitor.cookies.clear()
    answer = await visitor.get(f"{PREFIX}settings.md", headers={"accept": "text/html"})
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/sign-in")


HOSTILE = """# Title
<script>alert(1)</script> <img src=x onerror=alert(1)> [a script](javascript:alert(1))

## The same & *more*
## The same & *more*
## `POSTROOM_HOME`: a_b

[up](../../../etc/passwd) [anchor](#the-same--more) [page](how-to/google.md#x) [outside](https://example.org/a)

`<table>`
"""


def test_html_is_text_and_anchors_are_those_of_github(monkeypatch, tmp_path):
    (tmp_path / "hostile.md").write_text(HOSTILE)
    monkeypatch.setitem(documentation.FILES, "hostile.md", tmp_path / "hostile.md")
    html = documentation.render_documentation.__wrapped__("hostile.md").html
    assert set(re.findall(r"<(\w+)", html)) == {"h1", "h2", "p", "a", "code", "em"}
    assert find_links(html) == [
        f"{PREFIX}hostile.md#the-same--more",
        f"{PREFIX}how-to/google.md#x",
        "https://example.org/a",
    ]
    assert re.findall(r' id="([^"]+)"', html)[1:] == [
        "the-same--more",
        "the-same--more-1",
        "postroom_home-a_b",
    ]


def test_every_file_begins_with_its_title():
    assert [name for name, path in documentation.FILES.items() if not path.read_text().startswith("# ")] == []
    assert {dirname(name) for name in documentation.FILES} == {"", "how-to"}
