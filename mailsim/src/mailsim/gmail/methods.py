"""The table of the API's methods: path, scopes, parameters, properties, and the function that does it.

The test suite compares paths, parameters and scopes with Google's discovery document.
"""

from typing import Any

from mailsim.gmail import drafts, history, labels, messages, threads
from mailsim.gmail.context import Context, Method
from mailsim.gmail.params import Parameter

_PREFIX = "https://www.googleapis.com/auth/gmail."
FULL = "https://mail.google.com/"
METADATA = f"{_PREFIX}metadata"
_FORMATS = ("minimal", "full", "raw", "metadata")
_TEXT, _TEXTS = Parameter(), Parameter("texts")
_PAGE = {"maxResults": Parameter("uint32"), "pageToken": _TEXT}
_FIND = _PAGE | {"q": _TEXT, "includeSpamTrash": Parameter("bool")}
_READ = {"format": Parameter(among=_FORMATS), "metadataHeaders": _TEXTS}
_SOURCE = Parameter(among=("receivedTime", "dateHeader"))
_RELABEL = {
    "addLabelIds": list,
    "removeLabelIds": list,
    "addClassificationLabels": list,
    "removeClassificationLabelIds": list,
}
_MESSAGE = {
    "id": str,
    "threadId": str,
    "labelIds": list,
    "snippet": str,
    "historyId": str,
    "internalDate": str,
    "payload": dict,
    "sizeEstimate": int,
    "raw": str,
    "classificationLabelValues": list,
}
_DRAFT: dict[str, type] = {"id": str, "message": dict}
_LABEL = {
    "id": str,
    "name": str,
    "messageListVisibility": str,
    "labelListVisibility": str,
    "type": str,
    "color": dict,
    "messagesTotal": int,
    "messagesUnread": int,
    "threadsTotal": int,
    "threadsUnread": int,
}
_WATCH = {"topicName": str, "labelIds": list, "labelFilterBehavior": str, "labelFilterAction": str}


def _scopes(*names: str) -> frozenset[str]:
    return frozenset({FULL, *(f"{_PREFIX}{name}" for name in names)})


_SEE = _scopes("modify", "readonly", "metadata")
_DRAFTS = _scopes("modify", "readonly", "compose")
_COMPOSE = _scopes("modify", "compose", "addons.current.action.compose")
_LABELS = _scopes("labels", "modify")
_MODIFY = _scopes("modify")
_ADDON = ("addons.current.message.action", "addons.current.message.readonly")
_OPEN = _scopes("modify", "readonly", "metadata", "addons.current.message.metadata", *_ADDON)


def _watch(context: Context) -> dict[str, Any]:
    wanted = context.box.label_ids(context.body.get("labelIds", ()))
    watch = context.watches.start(context.box.mailbox, context.client.project, dict(context.body), wanted)
    return {"historyId": context.box.history_id(), "expiration": str(watch.expires_ms)}


def _stop(context: Context) -> None:
    context.watches.stop(context.box.mailbox, context.client.project)


METHODS: tuple[Method, ...] = (
    Method("users.getProfile", "GET", ("profile",), _SEE | _scopes("compose"), labels.get_profile, "Profile"),
    Method("users.watch", "POST", ("watch",), _SEE, _watch, "WatchResponse", properties=_WATCH),
    Method("users.stop", "POST", ("stop",), _SEE, _stop),
    Method(
        "users.history.list",
        "GET",
        ("history",),
        _SEE,
        history.list_history,
        "ListHistoryResponse",
        _PAGE
        | {
            "startHistoryId": Parameter("uint64"),
            "labelId": _TEXT,
            "historyTypes": Parameter("texts", history.TYPES),
        },
    ),
    Method("users.labels.list", "GET", ("labels",), _SEE | _LABELS, labels.list_labels, "ListLabelsResponse"),
    Method("users.labels.get", "GET", ("labels", "{id}"), _SEE | _LABELS, labels.get_label, "Label"),
    Method("users.labels.create", "POST", ("labels",), _LABELS, labels.create, "Label", properties=_LABEL),
    Method(
        "users.labels.update", "PUT", ("labels", "{id}"), _LABELS, labels.update, "Label", properties=_LABEL
    ),
    Method(
        "users.labels.patch", "PATCH", ("labels", "{id}"), _LABELS, labels.update, "Label", properties=_LABEL
    ),
    Method("users.labels.delete", "DELETE", ("labels", "{id}"), _LABELS, labels.delete),
    Method(
        "users.messages.list",
        "GET",
        ("messages",),
        _SEE,
        messages.list_messages,
        "ListMessagesResponse",
        _FIND | {"labelIds": _TEXTS},
    ),
    Method("users.messages.get", "GET", ("messages", "{id}"), _OPEN, messages.get_message, "Message", _READ),
    Method(
        "users.messages.attachments.get",
        "GET",
        ("messages", "{messageId}", "attachments", "{id}"),
        _scopes("modify", "readonly", *_ADDON),
        messages.get_attachment,
        "MessagePartBody",
    ),
    Method(
        "users.messages.modify",
        "POST",
        ("messages", "{id}", "modify"),
        _MODIFY,
        messages.modify,
        "Message",
        properties=_RELABEL,
    ),
    Method("users.messages.trash", "POST", ("messages", "{id}", "trash"), _MODIFY, messages.trash, "Message"),
    Method(
        "users.messages.untrash",
        "POST",
        ("messages", "{id}", "untrash"),
        _MODIFY,
        messages.untrash,
        "Message",
    ),
    Method("users.messages.delete", "DELETE", ("messages", "{id}"), _scopes(), messages.delete),
    Method(
        "users.messages.batchModify",
        "POST",
        ("messages", "batchModify"),
        _MODIFY,
        messages.batch_modify,
        properties=_RELABEL | {"ids": list},
    ),
    Method(
        "users.messages.batchDelete",
        "POST",
        ("messages", "batchDelete"),
        _scopes(),
        messages.batch_delete,
        properties={"ids": list},
    ),
    Method(
        "users.messages.insert",
        "POST",
        ("messages",),
        _scopes("insert", "modify"),
        messages.insert,
        "Message",
        {"deleted": Parameter("bool"), "internalDateSource": _SOURCE},
        _MESSAGE,
        uploads=True,
    ),
    Method(
        "users.messages.import",
        "POST",
        ("messages", "import"),
        _scopes("insert", "modify"),
        messages.import_message,
        "Message",
        {
            "deleted": Parameter("bool"),
            "internalDateSource": _SOURCE,
            "neverMarkSpam": Parameter("bool"),
            "processForCalendar": Parameter("bool"),
        },
        _MESSAGE,
        uploads=True,
    ),
    Method(
        "users.messages.send",
        "POST",
        ("messages", "send"),
        _COMPOSE | _scopes("send"),
        messages.send,
        "Message",
        properties=_MESSAGE,
        uploads=True,
    ),
    Method(
        "users.threads.list",
        "GET",
        ("threads",),
        _SEE,
        threads.list_threads,
        "ListThreadsResponse",
        _FIND | {"labelIds": _TEXTS},
    ),
    Method(
        "users.threads.get",
        "GET",
        ("threads", "{id}"),
        _OPEN,
        threads.get_thread,
        "Thread",
        _READ | {"format": Parameter(among=("full", "metadata", "minimal"))},
    ),
    Method(
        "users.threads.modify",
        "POST",
        ("threads", "{id}", "modify"),
        _MODIFY,
        threads.modify,
        "Thread",
        properties={"addLabelIds": list, "removeLabelIds": list},
    ),
    Method("users.threads.trash", "POST", ("threads", "{id}", "trash"), _MODIFY, threads.trash, "Thread"),
    Method(
        "users.threads.untrash", "POST", ("threads", "{id}", "untrash"), _MODIFY, threads.untrash, "Thread"
    ),
    Method("users.threads.delete", "DELETE", ("threads", "{id}"), _scopes(), threads.delete),
    Method("users.drafts.list", "GET", ("drafts",), _DRAFTS, drafts.list_drafts, "ListDraftsResponse", _FIND),
    Method(
        "users.drafts.get",
        "GET",
        ("drafts", "{id}"),
        _DRAFTS,
        drafts.get_draft,
        "Draft",
        {"format": Parameter(among=_FORMATS)},
    ),
    Method(
        "users.drafts.create",
        "POST",
        ("drafts",),
        _COMPOSE,
        drafts.create,
        "Draft",
        properties=_DRAFT,
        uploads=True,
    ),
    Method(
        "users.drafts.update",
        "PUT",
        ("drafts", "{id}"),
        _COMPOSE,
        drafts.update,
        "Draft",
        properties=_DRAFT,
        uploads=True,
    ),
    Method("users.drafts.delete", "DELETE", ("drafts", "{id}"), _COMPOSE, drafts.delete),
    Method(
        "users.drafts.send",
        "POST",
        ("drafts", "send"),
        _COMPOSE,
        drafts.send,
        "Message",
        properties=_DRAFT,
        uploads=True,
    ),
)


def find(http: str, path: tuple[str, ...], *, upload: bool) -> tuple[Method, dict[str, str]] | None:
    """The method behind `users/{userId}/…` and the ids in its path; words win over ids."""
    for method in _BY_SHAPE.get((http, len(path), path[0] if path else ""), ()):
        if upload and not method.uploads:
            continue
        ids: dict[str, str] = {}
        for pattern, part in zip(method.path, path, strict=True):
            if pattern[0] == "{":
                ids[pattern[1:-1]] = part
            elif pattern != part:
                break
        else:
            return method, ids
    return None


def _by_shape() -> dict[tuple[str, int, str], list[Method]]:
    shaped: dict[tuple[str, int, str], list[Method]] = {}
    for method in sorted(METHODS, key=lambda each: sum(part[0] == "{" for part in each.path)):
        shaped.setdefault((method.http, len(method.path), method.path[0]), []).append(method)
    return shaped


_BY_SHAPE = _by_shape()
