"""The routes of Graph that change attachments: add, delete, and upload in pieces (upload sessions).

`attachments` has those that read. Pieces go to the upload URL, which is on Outlook's own path and needs no
token but its own.
"""

import base64
import re
from collections.abc import Mapping
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from mailsim.graph import attachments, message_composer, messages, mime_editing
from mailsim.graph.context import GraphContext
from mailsim.graph.errors import GraphError, bad_request, error_body, not_found
from mailsim.graph.message_json import MessagePreferences, MessageView, format_milliseconds
from mailsim.graph.request import GraphCall, GraphResponse, encode_json, get_argument, get_text
from mailsim.graph.upload_session import UploadSession

MAX_PIECE_SIZE = 4 * 1024 * 1024
MIN_UPLOAD_SIZE = 3 * 1024 * 1024
MAX_UPLOAD_SIZE = 150 * 1024 * 1024
SESSION_SECONDS = 7 * 86_400
_RANGE = re.compile(r"bytes (\d{1,12})-(\d{1,12})/(\d{1,12})")
_SESSION = re.compile(r"/AttachmentSessions\('([^']+)'\)$")


async def add(call: GraphCall) -> GraphResponse:
    view = messages.find_in_path(call)
    body = call.json()
    if not get_text(body, "name").strip():
        raise bad_request("Required property 'Name' is missing.", "ErrorRequiredPropertyMissing")
    added = _attach(view, message_composer.compose_attachment(body))
    return attachments.entity_response(call, added, 201)


def _attach(view: MessageView, part: bytes) -> attachments.AttachedFile:
    """Add a part; return the message with its newest attachment."""
    mailbox = view.mailbox
    mailbox.edit_content(view.number, mime_editing.add_parts(mailbox.raw(view.number), [part]))
    changed = MessageView(mailbox, view.number, view.state, view.ids, view.prefer)
    # The links of generated mail come after its files.
    return changed, [attachment for attachment in changed.attachments if attachment.part is not None][-1]


async def delete(call: GraphCall) -> GraphResponse:
    view, attachment = attachments.find(call)
    if attachment.part is None:
        raise bad_request("A link of a generated message cannot be deleted.", "ErrorInvalidOperation")
    call.ids.remove_attachment(view.number, attachment.position)
    call.mailbox.edit_content(view.number, mime_editing.remove_part(view.tree, attachment.part))
    return GraphResponse(204)


async def create_upload_session(call: GraphCall) -> GraphResponse:
    assert call.user is not None
    view = messages.find_in_path(call)
    given = get_argument(call.json(), "attachmentItem")
    if not isinstance(given, Mapping):
        raise bad_request("The parameter 'AttachmentItem' is required.", "ErrorInvalidRequest")
    item = cast("Mapping[str, Any]", given)
    size = item.get("size")
    if str(item.get("attachmentType", "")).lower() != "file" or not get_text(item, "name").strip():
        raise bad_request("Only a file with a name can be uploaded.", "ErrorInvalidRequest")
    if not isinstance(size, int) or isinstance(size, bool) or size < MIN_UPLOAD_SIZE:
        raise bad_request(
            "Attachment size must be greater than the minimum size.",
            "ErrorAttachmentSizeShouldNotBeLessThanMinimumSize",
        )
    if size > MAX_UPLOAD_SIZE:
        raise bad_request("The attachment exceeds the maximum size.", "ErrorAttachmentSizeLimitExceeded")
    file = {name: item[name] for name in ("name", "contentType", "isInline", "contentId") if name in item}
    message_composer.compose_attachment(file | {"@odata.type": message_composer.FILE_TYPE})
    graph, identifier = call.graph, call.graph.new_guid()
    expires = graph.sim.clock.time() + SESSION_SECONDS
    session = UploadSession(call.user.oid, view.number, graph.new_guid(), file, size, expires)
    graph.upload_sessions[identifier] = session
    path = f"/api/v2.0/Users('{call.user.oid}')/Messages('{view.id}')/AttachmentSessions('{identifier}')"
    response = {
        "@odata.context": call.context("microsoft.graph.uploadSession"),
        "uploadUrl": f"{call.base_url}{path}?authtoken={session.token}",
        "expirationDateTime": format_milliseconds(int(expires * 1000)),
        "nextExpectedRanges": ["0-"],
    }
    return GraphResponse(201, response)


async def upload(graph: GraphContext, request: Request) -> Response:
    """Accept a piece of a file (PUT), or cancel the session (DELETE)."""
    try:
        return await _upload(graph, request)
    except GraphError as error:
        guid = graph.new_guid()
        refusal = error_body(error, now=graph.sim.clock.time(), request_id=guid, client_request_id=guid)
        return Response(encode_json(refusal), error.status, media_type="application/json")


async def _upload(graph: GraphContext, request: Request) -> Response:
    piece = await request.body()  # first, because another request may cancel the session meanwhile
    named = _SESSION.search(request.url.path)
    session = graph.upload_sessions.get(named[1]) if named else None
    user = graph.entra.directory.find_user(session.oid) if session else None
    if named is None or session is None or user is None or session.expires <= graph.sim.clock.time():
        raise not_found()
    if request.query_params.get("authtoken") != session.token:
        raise GraphError(401, "InvalidAuthenticationToken", "The upload URL is not complete.")
    request.scope["mailsim.exchange"].mailbox = user.upn
    if request.method == "DELETE":
        del graph.upload_sessions[named[1]]
        return Response(status_code=204)
    view = graph.make_view(user.mailbox, session.number, MessagePreferences())
    if view is None:
        raise not_found()
    _accept(session, request.headers.get("content-range", ""), piece)
    session.expires = graph.sim.clock.time() + SESSION_SECONDS
    if len(session.content) < session.size:
        response = {
            "@odata.context": f"{request.base_url}api/v2.0/$metadata#AttachmentSessions/$entity",
            "ExpirationDateTime": format_milliseconds(int(session.expires * 1000)),
            "NextExpectedRanges": [str(len(session.content))],
        }
        return Response(encode_json(response), 200, media_type="application/json")
    del graph.upload_sessions[named[1]]
    content = base64.b64encode(session.content).decode()
    file = {**session.file, "@odata.type": message_composer.FILE_TYPE, "contentBytes": content}
    view, added = _attach(view, message_composer.compose_attachment(file))
    place = f"api/v2.0/Users('{user.oid}')/Messages('{view.id}')/Attachments"
    identifier = graph.ids(user.mailbox).attachment_id(view.id, added.position)
    return Response(status_code=201, headers={"location": f"{request.base_url}{place}('{identifier}')"})


def _accept(session: UploadSession, header: str, piece: bytes) -> None:
    """Append a piece. Pieces come in order, each at most 4 MB."""
    given = _RANGE.fullmatch(header)
    if given is None:
        raise bad_request("The Content-Range header is missing or malformed.", "ErrorInvalidRequest")
    first, last, size = (int(number) for number in given.groups())
    if len(piece) > MAX_PIECE_SIZE:
        raise GraphError(413, "ErrorMessageSizeExceeded", "A piece of a file can have at most 4 MB.")
    if size != session.size or last - first + 1 != len(piece) or last >= size:
        raise bad_request(
            "The Content-Range does not match the content or the file's size.", "ErrorInvalidRequest"
        )
    if first != len(session.content):
        raise GraphError(416, "InvalidRange", f"The next piece must begin at byte {len(session.content)}.")
    session.content += piece
