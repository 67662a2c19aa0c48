"""The documentation at `/help/docs/`: the Markdown files of `docs`, rendered without internet access.

A wheel contains the files in `postroom/docs`; an editable install reads the folder of the repository.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.web import pages
from postroom.web.sessions import SiteContext, member_route

PREFIX: Final = "/help/docs/"
INDEX: Final = "README.md"
# For people who change the code. pyproject.toml keeps them and the decisions out of the wheel.
_INTERNAL: Final = frozenset({"crash-points.md", "proof.md", "requirements.md"})
_PACKAGED: Final = pages.HERE.parent / "docs"
_FOLDER: Final = _PACKAGED if _PACKAGED.is_dir() else pages.HERE.parents[2] / "docs"
# By name, such as `how-to/google.md`. Only these files are served; no path of a request reaches the disk.
FILES: Final[dict[str, Path]] = {
    path.relative_to(_FOLDER).as_posix(): path
    for path in (*_FOLDER.glob("*.md"), *_FOLDER.glob("how-to/*.md"))
    if path.name not in _INTERNAL
}
_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")


@dataclass(frozen=True)
class DocumentationPage:
    title: str
    html: str


def routes(site: SiteContext) -> list[Route]:
    return [member_route(site, f"{PREFIX}{{page:path}}", documentation_page)]


async def documentation_page(request: Request) -> Response:
    name = request.path_params["page"] or INDEX
    if name not in FILES:
        raise HTTPException(404)
    values = {"name": name, "document": render_documentation(name), "sections": list_sections()}
    return pages.render_page(request, "documentation.html", **values)


def read_title(name: str) -> str:
    with FILES[name].open(encoding="utf-8") as lines:
        return lines.readline().removeprefix("# ").strip()


@cache
def list_sections() -> Sequence[tuple[str, Sequence[tuple[str, str]]]]:
    """The sections of the index, each with the name and title of its pages."""
    sections: dict[str, dict[str, str]] = {}
    heading = ""
    tokens = _MARKDOWN.parse(FILES[INDEX].read_text("utf-8"))
    for position, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = tokens[position + 1].content
        for child in token.children or ():
            name = child.attrGet("href")
            if isinstance(name, str) and name in FILES:
                sections.setdefault(heading, {})[name] = read_title(name)
    return [(each, list(names.items())) for each, names in sections.items()]


@cache
def render_documentation(name: str) -> DocumentationPage:
    tokens = _MARKDOWN.parse(FILES[name].read_text("utf-8"))
    slugs = Counter[str]()
    for position, token in enumerate(tokens):
        if token.type == "heading_open":
            slug = _slugify(tokens[position + 1].children or [])
            token.attrSet("id", f"{slug}-{slugs[slug]}" if slugs[slug] else slug)
            slugs[slug] += 1
        elif token.type == "inline":
            token.children = list(_rewrite_links(name, token.children or []))
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    # Wide tables scroll on their own, also by keyboard.
    html = html.replace("<table>", '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>')
    return DocumentationPage(read_title(name), html.replace("</table>", "</table></div>"))


def _slugify(heading: Sequence[Token]) -> str:
    """The anchor of a heading, as GitHub builds it."""
    text = "".join(token.content for token in heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def _rewrite_links(name: str, tokens: Sequence[Token]) -> Iterator[Token]:
    """Point links at served pages. A link to another file of the repository becomes plain text."""
    is_link = True
    for token in tokens:
        if token.type == "link_open":
            href = str(token.attrGet("href"))
            path, hash_sign, anchor = href.partition("#")
            target = normpath(join(dirname(name), path)) if path else name
            is_link = ":" in path or target in FILES
            if ":" not in path:
                token.attrSet("href", f"{PREFIX}{target}{hash_sign}{anchor}")
        if is_link or token.type not in {"link_open", "link_close"}:
            yield token
