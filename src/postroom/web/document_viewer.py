"""The file of a document: images of its pages, words with their positions, and the original as a download.

A sandboxed child process renders the pages. To show a document, the browser gets images and text only; it
gets the file itself only as a download, and never renders it.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Literal
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from postroom.errors import UnreadableFile
from postroom.flow.storage.blob_reading import read_blob
from postroom.store import documents, records
from postroom.web import pages
from postroom.web.document_context import DocumentPagesContext, get_document
from postroom.web.sessions import get_visitor, member_route

# Widths in pixels by the name in the URL: to read a page, and to zoom into it.
IMAGE_WIDTHS: Final[Mapping[str, int]] = {"": 1100, "zoom": 2400}


def routes(context: DocumentPagesContext) -> list[Route]:
    site = context.site
    return [
        member_route(site, "/documents/{document:uuid}/pages/{page:int}", partial(page_image, context)),
        member_route(site, "/documents/{document:uuid}/words", partial(list_words, context)),
        member_route(site, "/documents/{document:uuid}/file", partial(download, context)),
    ]


async def page_image(context: DocumentPagesContext, request: Request) -> Response:
    """Render one page of the document as an image; with `?size=zoom`, a larger one."""
    organization = get_visitor(request).organization
    width = IMAGE_WIDTHS.get(request.query_params.get("size", ""))
    async with context.site.database.transaction(organization) as connection:
        document = await get_document(connection, request.path_params["document"])
        page_layouts = await records.list_pages(connection, document.id)
    number: int = request.path_params["page"]
    if width is None or number >= len(page_layouts):
        raise HTTPException(404)
    rotation: Literal[0, 90, 180, 270] = page_layouts[number][2]
    content = await read_blob(context.blobs, organization, document.readable_sha256)
    try:
        sandbox = context.sandbox.for_organization(organization)
        image = await sandbox.page_image(content, page=number, width=width, rotation=rotation)
    except UnreadableFile:
        raise HTTPException(404) from None
    # The bytes of a document never change, but reading it again may detect another page rotation.
    return Response(image, media_type="image/webp", headers={"cache-control": "private, max-age=300"})


async def list_words(context: DocumentPagesContext, request: Request) -> Response:
    """The words of each page: text, number of the line, and edges in thousandths of the page."""
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        document = await get_document(connection, request.path_params["document"])
        layouts = await records.list_pages(connection, document.id)
        words = await records.list_words(connection, document.id)
    by_page: list[list[Any]] = [[] for _ in layouts]
    for text, page, *place in words:
        if page < len(by_page):
            by_page[page].append([pages.neutralize_bidi(text), *place])
    return JSONResponse(by_page)


async def download(context: DocumentPagesContext, request: Request) -> Response:
    """Send the original file as a download: the browser must not render it."""
    organization = get_visitor(request).organization
    async with context.site.database.transaction(organization) as connection:
        document = await get_document(connection, request.path_params["document"])
        arrivals = await documents.list_arrivals(connection, document.id)
    content = await read_blob(context.blobs, organization, document.sha256)
    name = quote(arrivals[0].file_name or "document", safe="")
    return Response(
        content,
        media_type="application/octet-stream",
        headers={"content-disposition": f"attachment; filename*=UTF-8''{name}"},
    )
