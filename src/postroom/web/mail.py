"""The pages of mail: one mailbox with its messages or threads, one message with what became of it, search."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from postroom.documents.files.html_sanitizer import PICTURE_BYTES
from postroom.documents.sandbox.file_sandbox import Readers
from postroom.errors import NotFound
from postroom.flow.documents.process import content_of
from postroom.flow.mail.sync.sync_requests import ask
from postroom.model import ContentPolicy, MailboxId, OrganizationId, ProviderName, Role, WorkKind
from postroom.ports import BlobStore
from postroom.store import audits, documents, failures, search, sync_progress
from postroom.store.database import Connection
from postroom.store.views import mail as views
from postroom.store.views.threads import Listed
from postroom.web import forms, message_body, pages, paging, threads
from postroom.web.mailboxes import POLICY_NAMES, PROVIDER_NAMES
from postroom.web.sessions import SiteContext, get_visitor, member_route

PAGE_SIZE: Final = 50
EVENTS_SHOWN: Final = 15
_EVENT_NAMES: Final = {
    "created": "Arrived",
    "updated": "Changed",
    "moved": "Moved",
    "deleted": "Deleted",
    "labels_changed": "Labels changed",
}


@dataclass(frozen=True)
class MailPagesContext:
    """What the pages need."""

    site: SiteContext
    blobs: BlobStore
    readers: Readers


def routes(context: MailPagesContext) -> list[Route]:
    site = context.site
    return [
        member_route(site, "/mailboxes/{mailbox:uuid}", partial(mailbox_page, context)),
        member_route(
            site, "/mailboxes/{mailbox:uuid}/sync", partial(sync_now, context), Role.ADMIN, methods=["POST"]
        ),
        member_route(site, "/messages/{message:int}", partial(message_page, context)),
        member_route(site, "/messages/{message:int}/body", partial(body, context)),
        member_route(site, "/messages/{message:int}/attachments/{part:path}", partial(attachment, context)),
        *threads.routes(site),
        member_route(site, "/search", partial(search_page, context)),
    ]


async def mailbox_page(context: MailPagesContext, request: Request) -> Response:
    id_ = MailboxId(request.path_params["mailbox"])
    asked = request.query_params
    folder = forms.parse_number(asked.get("folder"))
    in_threads = asked.get("view") == "threads"
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        found = await views.mailbox(connection, id_)
        if found is None:
            raise HTTPException(404)
        folders = await views.folders(connection, id_, after=0, limit=500)
        messages, found_threads, older = await _load_rows(
            connection, id_, folder, asked.get("before"), in_threads=in_threads
        )
        events = await views.mail_events(connection, id_, below=None, limit=EVENTS_SHOWN)
        subjects = await views.subjects(connection, [each.message_id for each in events])
        progress = await sync_progress.progress(connection, id_, WorkKind.SYNC)
        stored = await views.stored(connection, id_)
        audit = await audits.latest(connection, id_)
        failing = await failures.open_count(connection, id_)
    names = {each.id: each.name for each in folders}
    return pages.render_page(
        "mailbox.html",
        mailbox=found,
        provider=PROVIDER_NAMES[ProviderName(found.provider)],
        kept=POLICY_NAMES[ContentPolicy(found.content_policy)],
        folders=_sort_folders(folders),
        folder=folder,
        names=names,
        in_threads=in_threads,
        messages=messages,
        threads=found_threads,
        older=older,
        events=[(_EVENT_NAMES[each.kind], each) for each in events],
        subjects=subjects,
        progress=progress,
        stored=stored,
        audit=audit,
        failing=failing,
        now=datetime.now(UTC),
    )


async def _load_rows(
    connection: Connection,
    mailbox: MailboxId,
    folder: int | None,
    before: str | None,
    *,
    in_threads: bool,
) -> tuple[list[views.MessageResource], list[Listed], str | None]:
    """A page of messages, or of threads, and where the next one begins."""
    if in_threads:
        listed, older = await threads.load_threads(connection, mailbox, folder=folder, before=before)
        return [], listed, older
    found = await views.messages(
        connection, mailbox, folder=folder, after=paging.parse_position(before), limit=PAGE_SIZE + 1
    )
    last = found[PAGE_SIZE - 1] if len(found) > PAGE_SIZE else None
    return found[:PAGE_SIZE], [], paging.format_position(last.received_at, last.id) if last else None


def _sort_folders(folders: Sequence[views.FolderResource]) -> list[views.FolderResource]:
    """What people open first stands first, then what they named, what is thrown away last."""
    place = {"inbox": 0, "archive": 1, "sent": 2, "drafts": 3, "spam": 6, "trash": 7}
    states = ("UNREAD", "CHAT")  # labels of Gmail that are no place
    shown = [each for each in folders if each.provider_folder_id not in states]
    return sorted(shown, key=lambda each: (place.get(each.role or "", 5), each.name.casefold()))


async def sync_now(context: MailPagesContext, request: Request) -> Response:
    id_ = MailboxId(request.path_params["mailbox"])
    organization = get_visitor(request).organization
    async with context.site.database.transaction(organization) as connection:
        if await views.mailbox(connection, id_) is None:
            raise HTTPException(404)
        await ask(connection, organization, id_, actor=get_visitor(request).actor)
    return RedirectResponse(f"/mailboxes/{id_}", 303)


async def _message(connection: Connection, id_: int) -> views.MessageResource:
    found = await views.message(connection, id_)
    if found is None:
        raise HTTPException(404)
    return found


async def message_page(context: MailPagesContext, request: Request) -> Response:
    id_: int = request.path_params["message"]
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        message = await _message(connection, id_)
        content = await views.content(connection, id_)
        attachments = await views.attachments(connection, id_)
        verdicts = await documents.verdicts(connection, id_)
        taken = await documents.of_message(connection, id_)
        events = await views.events_of_message(connection, id_)
        thread = await views.messages_of_thread(connection, message.thread_id, after=0, limit=100)
        mailbox = await views.mailbox(connection, message.mailbox_id)
        folders = await views.folders(connection, message.mailbox_id, after=0, limit=500)
    return pages.render_page(
        "message.html",
        message=message,
        mailbox=mailbox,
        has_body=content is not None and bool(content.body_html or content.body_plain),
        attachments=attachments,
        files={each.part: each.file_name for each in attachments},
        verdicts=verdicts,
        documents=taken,
        events=[(_EVENT_NAMES[each.kind], each) for each in events],
        thread=thread,
        names={each.id: each.name for each in folders}
        | {each.provider_folder_id: each.name for each in folders},
        now=datetime.now(UTC),
    )


async def body(context: MailPagesContext, request: Request) -> Response:
    """A message's body for the sandboxed frame, under a policy of its own."""
    id_: int = request.path_params["message"]
    organization = get_visitor(request).organization
    async with context.site.database.transaction(organization) as connection:
        await _message(connection, id_)
        content = await views.content(connection, id_)
        attachments = await views.attachments(connection, id_)
    pictures = await _load_inline_images(context, organization, attachments)
    shown = await message_body.render_frame(
        context.readers,
        content.body_html if content else None,
        content.body_plain if content else None,
        pictures,
    )
    return HTMLResponse(shown, headers={"content-security-policy": message_body.POLICY})


async def _load_inline_images(
    context: MailPagesContext, organization: OrganizationId, attachments: list[views.AttachmentResource]
) -> dict[str, tuple[str, bytes]]:
    found: dict[str, tuple[str, bytes]] = {}
    left = PICTURE_BYTES
    for each in attachments:
        if each.content_id and each.sha256 and each.size <= left:
            try:
                data = await content_of(context.blobs, organization, bytes.fromhex(each.sha256))
            except NotFound:
                continue
            found[each.content_id] = (each.media_type, data)
            left -= len(data)
    return found


async def attachment(context: MailPagesContext, request: Request) -> Response:
    """An attachment's bytes: saved by the browser, never shown by it."""
    id_: int = request.path_params["message"]
    organization = get_visitor(request).organization
    async with context.site.database.transaction(organization) as connection:
        found = await views.attachment(connection, id_, request.path_params["part"])
    if found is None or found.sha256 is None:
        raise HTTPException(404)
    data = await content_of(context.blobs, organization, bytes.fromhex(found.sha256))
    name = quote(found.file_name or "attachment", safe="")
    return Response(
        data,
        media_type="application/octet-stream",
        headers={"content-disposition": f"attachment; filename*=UTF-8''{name}"},
    )


async def search_page(context: MailPagesContext, request: Request) -> Response:
    words = request.query_params.get("q", "").strip()[:500]
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        messages = await search.messages(connection, words) if words else []
        papers = await search.documents(connection, words) if words else []
    return pages.render_page(
        "search.html", words=words, messages=messages, documents=papers, now=datetime.now(UTC)
    )
