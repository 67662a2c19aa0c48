"""The table of the Gmail API's methods: path, scopes, parameters, properties and function.

The functions are in other modules, except those of watches; the rows of the settings are in
`settings_methods`. The test suite compares paths, parameters and
scopes with Google's discovery document.
"""

from typing import Any

from mailsim.gmail import drafts, history, labels, messages, threads
from mailsim.gmail.context import GmailCallContext, GmailMethod
from mailsim.gmail.parameters import QueryParameter
from mailsim.gmail.settings_methods import SETTINGS_METHODS

_PREFIX = "https://www.googleapis.com/auth/gmail."
FULL_SCOPE = "https://mail.google.com/"
METADATA_SCOPE = f"{_PREFIX}metadata"
_FORMATS = ("minimal", "full", "raw", "metadata")
_TEXT, _TEXTS = QueryParameter(), QueryParameter("texts")
_PAGE = {"maxResults": QueryParameter("uint32"), "pageToken": _TEXT}
_FIND = _PAGE | {"q": _TEXT, "includeSpamTrash": QueryParameter("bool")}
_READ = {"format": QueryParameter(choices=_FORMATS), "metadataHeaders": _TEXTS}
_SOURCE = QueryParameter(choices=("receivedTime", "dateHeader"))
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
    return frozenset({FULL_SCOPE, *(f"{_PREFIX}{name}" for name in names)})


_SEE = _scopes("modify", "readonly", "metadata")
_DRAFTS = _scopes("modify", "readonly", "compose")
_COMPOSE = _scopes("modify", "compose", "addons.current.action.compose")
_LABELS = _scopes("labels", "modify")
_MODIFY = _scopes("modify")
_ADDON = ("addons.current.message.action", "addons.current.message.readonly")
_OPEN = _scopes("modify", "readonly", "metadata", "addons.current.message.metadata", *_ADDON)


def _start_watch(context: GmailCallContext) -> dict[str, Any]:
    wanted = context.gmail_mailbox.validate_label_ids(context.body.get("labelIds", ()))
    watch = context.watches.start(
        context.gmail_mailbox.mailbox, context.client.project, dict(context.body), wanted
    )
    return {"historyId": context.gmail_mailbox.format_history_id(), "expiration": str(watch.expires_ms)}


def _stop_watch(context: GmailCallContext) -> None:
    context.watches.stop(context.gmail_mailbox.mailbox, context.client.project)


METHODS: tuple[GmailMethod, ...] = (
    GmailMethod(
        "users.getProfile", "GET", ("profile",), _SEE | _scopes("compose"), labels.get_profile, "Profile"
    ),
    GmailMethod("users.watch", "POST", ("watch",), _SEE, _start_watch, "WatchResponse", properties=_WATCH),
    GmailMethod("users.stop", "POST", ("stop",), _SEE, _stop_watch),
    GmailMethod(
        "users.history.list",
        "GET",
        ("history",),
        _SEE,
        history.list_history,
        "ListHistoryResponse",
        _PAGE
        | {
            "startHistoryId": QueryParameter("uint64"),
            "labelId": _TEXT,
            "historyTypes": QueryParameter("texts", history.TYPES),
        },
    ),
    GmailMethod(
        "users.labels.list", "GET", ("labels",), _SEE | _LABELS, labels.list_labels, "ListLabelsResponse"
    ),
    GmailMethod("users.labels.get", "GET", ("labels", "{id}"), _SEE | _LABELS, labels.get_label, "Label"),
    GmailMethod(
        "users.labels.create", "POST", ("labels",), _LABELS, labels.create, "Label", properties=_LABEL
    ),
    GmailMethod(
        "users.labels.update", "PUT", ("labels", "{id}"), _LABELS, labels.update, "Label", properties=_LABEL
    ),
    GmailMethod(
        "users.labels.patch", "PATCH", ("labels", "{id}"), _LABELS, labels.update, "Label", properties=_LABEL
    ),
    GmailMethod("users.labels.delete", "DELETE", ("labels", "{id}"), _LABELS, labels.delete),
    GmailMethod(
        "users.messages.list",
        "GET",
        ("messages",),
        _SEE,
        messages.list_messages,
        "ListMessagesResponse",
        _FIND | {"labelIds": _TEXTS},
    ),
    GmailMethod(
        "users.messages.get", "GET", ("messages", "{id}"), _OPEN, messages.get_message, "Message", _READ
    ),
    GmailMethod(
        "users.messages.attachments.get",
        "GET",
        ("messages", "{messageId}", "attachments", "{id}"),
        _scopes("modify", "readonly", *_ADDON),
        messages.get_attachment,
        "MessagePartBody",
    ),
    GmailMethod(
        "users.messages.modify",
        "POST",
        ("messages", "{id}", "modify"),
        _MODIFY,
        messages.modify,
        "Message",
        properties=_RELABEL,
    ),
    GmailMethod(
        "users.messages.trash", "POST", ("messages", "{id}", "trash"), _MODIFY, messages.trash, "Message"
    ),
    GmailMethod(
        "users.messages.untrash",
        "POST",
        ("messages", "{id}", "untrash"),
        _MODIFY,
        messages.untrash,
        "Message",
    ),
    GmailMethod("users.messages.delete", "DELETE", ("messages", "{id}"), _scopes(), messages.delete),
    GmailMethod(
        "users.messages.batchModify",
        "POST",
        ("messages", "batchModify"),
        _MODIFY,
        messages.batch_modify,
        properties=_RELABEL | {"ids": list},
    ),
    GmailMethod(
        "users.messages.batchDelete",
        "POST",
        ("messages", "batchDelete"),
        _scopes(),
        messages.batch_delete,
        properties={"ids": list},
    ),
    GmailMethod(
        "users.messages.insert",
        "POST",
        ("messages",),
        _scopes("insert", "modify"),
        messages.insert,
        "Message",
        {"deleted": QueryParameter("bool"), "internalDateSource": _SOURCE},
        _MESSAGE,
        uploads=True,
    ),
    GmailMethod(
        "users.messages.import",
        "POST",
        ("messages", "import"),
        _scopes("insert", "modify"),
        messages.import_message,
        "Message",
        {
            "deleted": QueryParameter("bool"),
            "internalDateSource": _SOURCE,
            "neverMarkSpam": QueryParameter("bool"),
            "processForCalendar": QueryParameter("bool"),
        },
        _MESSAGE,
        uploads=True,
    ),
    GmailMethod(
        "users.messages.send",
        "POST",
        ("messages", "send"),
        _COMPOSE | _scopes("send"),
        messages.send,
        "Message",
        properties=_MESSAGE,
        uploads=True,
    ),
    GmailMethod(
        "users.threads.list",
        "GET",
        ("threads",),
        _SEE,
        threads.list_threads,
        "ListThreadsResponse",
        _FIND | {"labelIds": _TEXTS},
    ),
    GmailMethod(
        "users.threads.get",
        "GET",
        ("threads", "{id}"),
        _OPEN,
        threads.get_thread,
        "Thread",
        _READ | {"format": QueryParameter(choices=("full", "metadata", "minimal"))},
    ),
    GmailMethod(
        "users.threads.modify",
        "POST",
        ("threads", "{id}", "modify"),
        _MODIFY,
        threads.modify,
        "Thread",
        properties={"addLabelIds": list, "removeLabelIds": list},
    ),
    GmailMethod(
        "users.threads.trash", "POST", ("threads", "{id}", "trash"), _MODIFY, threads.trash, "Thread"
    ),
    GmailMethod(
        "users.threads.untrash", "POST", ("threads", "{id}", "untrash"), _MODIFY, threads.untrash, "Thread"
    ),
    GmailMethod("users.threads.delete", "DELETE", ("threads", "{id}"), _scopes(), threads.delete),
    GmailMethod(
        "users.drafts.list", "GET", ("drafts",), _DRAFTS, drafts.list_drafts, "ListDraftsResponse", _FIND
    ),
    GmailMethod(
        "users.drafts.get",
        "GET",
        ("drafts", "{id}"),
        _DRAFTS,
        drafts.get_draft,
        "Draft",
        {"format": QueryParameter(choices=_FORMATS)},
    ),
    GmailMethod(
        "users.drafts.create",
        "POST",
        ("drafts",),
        _COMPOSE,
        drafts.create,
        "Draft",
        properties=_DRAFT,
        uploads=True,
    ),
    GmailMethod(
        "users.drafts.update",
        "PUT",
        ("drafts", "{id}"),
        _COMPOSE,
        drafts.update,
        "Draft",
        properties=_DRAFT,
        uploads=True,
    ),
    GmailMethod("users.drafts.delete", "DELETE", ("drafts", "{id}"), _COMPOSE, drafts.delete),
    GmailMethod(
        "users.drafts.send",
        "POST",
        ("drafts", "send"),
        _COMPOSE,
        drafts.send,
        "Message",
        properties=_DRAFT,
        uploads=True,
    ),
    *SETTINGS_METHODS,
)


def find_method(
    http: str, path: tuple[str, ...], *, upload: bool
) -> tuple[GmailMethod, dict[str, str]] | None:
    """Find the method of a path after `users/{userId}/`, and the IDs in it.

    Literal segments win over IDs.
    """
    for method in _METHOD_INDEX.get((http, len(path), path[0] if path else ""), ()):
        if upload and not method.uploads:
            continue
        ids: dict[str, str] = {}
        for pattern, part in zip(method.path, path, strict=True):
            if pattern[0] == "{":
                name, _, verb = pattern[1:].partition("}")
                if not part.endswith(verb):
                    break
                ids[name] = part.removesuffix(verb)
            elif pattern != part:
                break
        else:
            return method, ids
    return None


def _index_methods() -> dict[tuple[str, int, str], list[GmailMethod]]:
    shaped: dict[tuple[str, int, str], list[GmailMethod]] = {}
    for method in sorted(METHODS, key=lambda method: sum(part[0] == "{" for part in method.path)):
        shaped.setdefault((method.http, len(method.path), method.path[0]), []).append(method)
    return shaped


_METHOD_INDEX = _index_methods()
