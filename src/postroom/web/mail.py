"""Mail pages: a mailbox with its messages or threads, one message, attachments, search, sync button.

The page of one thread is in `threads`, the timeline of a mailbox in `mailbox_timeline`, the HTML of a message
in `message_body`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from postroom.api_types import AttachmentResource, MessageResource
from postroom.documents.files.html_sanitizer import INLINE_IMAGE_BYTES
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.errors import NotFound
from postroom.flow.mail.audit import request_audit
from postroom.flow.mail.sync.sync_requests import request_sync
from postroom.flow.storage.blob_reading import read_blob
from postroom.model import MailboxId, OrganizationId, Role, WorkKind
from postroom.ports import BlobStore
from postroom.store import (
    audits,
    documents,
    failures,
    mailboxes,
    quota_usage,
    search,
    subscriptions,
    sync_progress,
    verdicts,
)
from postroom.store.connection import Connection
from postroom.store.views import mail as views
from postroom.store.views.threads import ThreadSummary
from postroom.web import attention, folder_tree, forms, mailbox_timeline, message_body, pages, paging, threads
from postroom.web.documents import STATE_NAMES
from postroom.web.mailboxes import POLICY_NAMES, PROVIDER_NAMES, describe_remedy, describe_state
from postroom.web.sessions import SiteContext, get_visitor, member_route

PAGE_SIZE: Final = 50
EVENTS_SHOWN: Final = 15
_EVENT_NAMES: Final = {
    "created": "Arrived",
    "updated": "Changed",
    "moved": "Moved",
    "left": "Left the mirrored folder",
    "deleted": "Deleted",
    "labels_changed": "Labels changed",
}


@dataclass(frozen=True)
class MailPagesContext:
    """Collaborators of the mail pages."""

    site: SiteContext
    blobs: BlobStore
    sandbox: FileSandbox


def routes(context: MailPagesContext) -> list[Route]:
    site = context.site
    return [
        member_route(site, "/mailboxes/{mailbox:uuid}", partial(mailbox_page, context)),
        member_route(
            site, "/mailboxes/{mailbox:uuid}/sync", partial(sync_now, context), Role.ADMIN, methods=["POST"]
        ),
        member_route(
            site, "/mailboxes/{mailbox:uuid}/audit", partial(audit_now, context), Role.ADMIN, methods=["POST"]
        ),
        member_route(site, "/messages/{message:int}", partial(message_page, context)),
        member_route(site, "/messages/{message:int}/body", partial(message_body_frame, context)),
        member_route(
            site, "/messages/{message:int}/attachments/{part:path}", partial(download_attachment, context)
        ),
        *mailbox_timeline.routes(site),
        *threads.routes(site),
        member_route(site, "/search", partial(search_page, context)),
    ]


async def mailbox_page(context: MailPagesContext, request: Request) -> Response:
    id_ = MailboxId(request.path_params["mailbox"])
    query = request.query_params
    folder = forms.parse_number(query.get("folder"))
    in_threads = query.get("view") == "threads"
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        mailbox = await mailboxes.get(connection, id_)
        if mailbox is None:
            raise HTTPException(404)
        app_only = mailbox.has_lost_grant and id_ in await mailboxes.list_app_only_ids(connection)
        folders = await views.list_folders(connection, id_, after=0, limit=500)
        messages, found_threads, older = await _load_rows(
            connection, id_, folder, query.get("before"), in_threads=in_threads
        )
        events = await views.list_mail_events(connection, id_, below=None, limit=EVENTS_SHOWN)
        progress = await sync_progress.get_progress(connection, id_, WorkKind.SYNC)
        stored = await views.count_mailbox(connection, id_)
        audit = await audits.get_latest(connection, id_)
        audit_progress = await audits.get_progress(connection, id_, WorkKind.AUDIT)
        subscription = await subscriptions.get_live(connection, id_)
        quota = await quota_usage.get_highest(connection, id_)
        failing = await failures.count_open(connection, id_)
    names = {folder.id: folder.name for folder in folders}
    return pages.render_page(
        request,
        "mailbox.html",
        mailbox=mailbox,
        state=describe_state(mailbox),
        remedy=describe_remedy(mailbox),
        item=attention.build_mailbox_item(mailbox, app_only=app_only) if attention.is_late(mailbox) else None,
        provider=PROVIDER_NAMES[mailbox.provider],
        policy=POLICY_NAMES[mailbox.policy],
        folders=folder_tree.build_tree(folders),
        folder=folder,
        names=names,
        in_threads=in_threads,
        messages=messages,
        threads=found_threads,
        older=older,
        events=[(_EVENT_NAMES[event.kind], event) for event in events],
        progress=progress,
        stored=stored,
        audit=audit,
        audit_progress=audit_progress,
        subscription=subscription,
        quota=quota,
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
) -> tuple[list[MessageResource], list[ThreadSummary], str | None]:
    """Load a page of messages or threads, and the position where the next page begins."""
    if in_threads:
        listed, older = await threads.load_threads(connection, mailbox, folder=folder, before=before)
        return [], listed, older
    found = await views.list_messages(
        connection, mailbox, folder=folder, after=paging.parse_position(before), limit=PAGE_SIZE + 1
    )
    last = found[PAGE_SIZE - 1] if len(found) > PAGE_SIZE else None
    return found[:PAGE_SIZE], [], paging.format_position(last.received_at, last.id) if last else None


async def sync_now(context: MailPagesContext, request: Request) -> Response:
    id_ = MailboxId(request.path_params["mailbox"])
    organization = get_visitor(request).organization
    async with context.site.database.transaction(organization) as connection:
        if await views.get_mailbox(connection, id_) is None:
            raise HTTPException(404)
        await request_sync(connection, organization, id_, actor=get_visitor(request).actor)
    return RedirectResponse(f"/mailboxes/{id_}", 303)


async def audit_now(context: MailPagesContext, request: Request) -> Response:
    id_ = MailboxId(request.path_params["mailbox"])
    visitor = get_visitor(request)
    async with context.site.database.transaction(visitor.organization) as connection:
        if await views.get_mailbox(connection, id_) is None:
            raise HTTPException(404)
        await request_audit(connection, visitor.organization, id_, actor=visitor.actor)
    return RedirectResponse(f"/mailboxes/{id_}", 303)


async def _get_message(connection: Connection, id_: int) -> MessageResource:
    found = await views.get_message(connection, id_)
    if found is None:
        raise HTTPException(404)
    return found


async def message_page(context: MailPagesContext, request: Request) -> Response:
    id_: int = request.path_params["message"]
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        message = await _get_message(connection, id_)
        content = await views.get_content(connection, id_)
        attachments = await views.list_attachments(connection, id_)
        decided = await verdicts.list_verdicts(connection, id_)
        taken = await documents.list_by_message(connection, id_)
        events = await views.list_message_events(connection, id_)
        thread = await views.list_thread_messages(connection, message.thread_id, after=0, limit=100)
        mailbox = await views.get_mailbox(connection, message.mailbox_id)
        folders = await views.list_folders(connection, message.mailbox_id, after=0, limit=500)
    return pages.render_page(
        request,
        "message.html",
        message=message,
        mailbox=mailbox,
        has_body=content is not None and bool(content.body_html or content.body_plain),
        attachments=attachments,
        files={attachment.part: attachment.file_name for attachment in attachments},
        verdicts=decided,
        documents=taken,
        events=[(_EVENT_NAMES[event.kind], event) for event in events],
        thread=thread,
        state_names=STATE_NAMES,
        names={folder.id: folder.name for folder in folders}
        | {folder.provider_folder_id: folder.name for folder in folders},
        now=datetime.now(UTC),
    )


async def message_body_frame(context: MailPagesContext, request: Request) -> Response:
    """Serve the body of a message for the sandboxed frame, with its own content security policy."""
    id_: int = request.path_params["message"]
    organization = get_visitor(request).organization
    async with context.site.database.transaction(organization) as connection:
        await _get_message(connection, id_)
        content = await views.get_content(connection, id_)
        attachments = await views.list_attachments(connection, id_)
    images = await _load_inline_images(context, organization, attachments)
    shown = await message_body.render_frame(
        context.sandbox.for_organization(organization),
        content.body_html if content else None,
        content.body_plain if content else None,
        images,
    )
    return HTMLResponse(shown, headers={"content-security-policy": message_body.POLICY})


async def _load_inline_images(
    context: MailPagesContext, organization: OrganizationId, attachments: list[AttachmentResource]
) -> dict[str, tuple[str, bytes]]:
    images: dict[str, tuple[str, bytes]] = {}
    budget = INLINE_IMAGE_BYTES
    for attachment in attachments:
        if attachment.content_id and attachment.sha256 and attachment.size <= budget:
            try:
                data = await read_blob(context.blobs, organization, bytes.fromhex(attachment.sha256))
            except NotFound:
                continue
            images[attachment.content_id] = (attachment.media_type, data)
            budget -= len(data)
    return images


async def download_attachment(context: MailPagesContext, request: Request) -> Response:
    """Send an attachment as a download: the browser must not render it."""
    id_: int = request.path_params["message"]
    organization = get_visitor(request).organization
    async with context.site.database.transaction(organization) as connection:
        found = await views.get_attachment(connection, id_, request.path_params["part"])
    if found is None or found.sha256 is None:
        raise HTTPException(404)
    data = await read_blob(context.blobs, organization, bytes.fromhex(found.sha256))
    name = quote(found.file_name or "attachment", safe="")
    return Response(
        data,
        media_type="application/octet-stream",
        headers={"content-disposition": f"attachment; filename*=UTF-8''{name}"},
    )


async def search_page(context: MailPagesContext, request: Request) -> Response:
    text = request.query_params.get("q", "").strip()[:500]
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        messages = await search.search_messages(connection, text) if text else []
        matching_documents = await search.search_documents(connection, text) if text else []
    return pages.render_page(
        request,
        "search.html",
        text=text,
        state_names=STATE_NAMES,
        messages=messages,
        documents=matching_documents,
        now=datetime.now(UTC),
    )
