"""The table of the properties of Gmail's response types, for the `fields` parameter.

Each property maps to the name of its type, or to "" for a plain value. The test suite compares this with
Google's discovery document.
"""

_CHANGE = {"message": "Message"}
_LABEL_CHANGE = {"message": "Message", "labelIds": ""}

SCHEMA: dict[str, dict[str, str]] = {
    "Profile": dict.fromkeys(("emailAddress", "messagesTotal", "threadsTotal", "historyId"), ""),
    "WatchResponse": dict.fromkeys(("historyId", "expiration"), ""),
    "ListHistoryResponse": {"history": "History", "nextPageToken": "", "historyId": ""},
    "History": {
        "id": "",
        "messages": "Message",
        "messagesAdded": "HistoryMessageAdded",
        "messagesDeleted": "HistoryMessageDeleted",
        "labelsAdded": "HistoryLabelAdded",
        "labelsRemoved": "HistoryLabelRemoved",
    },
    "HistoryMessageAdded": _CHANGE,
    "HistoryMessageDeleted": _CHANGE,
    "HistoryLabelAdded": _LABEL_CHANGE,
    "HistoryLabelRemoved": _LABEL_CHANGE,
    "ListMessagesResponse": {"messages": "Message", "nextPageToken": "", "resultSizeEstimate": ""},
    "ListThreadsResponse": {"threads": "Thread", "nextPageToken": "", "resultSizeEstimate": ""},
    "ListDraftsResponse": {"drafts": "Draft", "nextPageToken": "", "resultSizeEstimate": ""},
    "ListLabelsResponse": {"labels": "Label"},
    "Draft": {"id": "", "message": "Message"},
    "Thread": {"id": "", "snippet": "", "historyId": "", "messages": "Message"},
    "Message": {
        "id": "",
        "threadId": "",
        "labelIds": "",
        "snippet": "",
        "historyId": "",
        "internalDate": "",
        "payload": "MessagePart",
        "sizeEstimate": "",
        "raw": "",
        "classificationLabelValues": "ClassificationLabelValue",
    },
    "ClassificationLabelValue": {"labelId": "", "fields": "ClassificationLabelFieldValue"},
    "ClassificationLabelFieldValue": {"fieldId": "", "selection": ""},
    "MessagePart": {
        "partId": "",
        "mimeType": "",
        "filename": "",
        "headers": "MessagePartHeader",
        "body": "MessagePartBody",
        "parts": "MessagePart",
    },
    "MessagePartHeader": {"name": "", "value": ""},
    "MessagePartBody": {"attachmentId": "", "size": "", "data": ""},
    "Label": {
        "id": "",
        "name": "",
        "messageListVisibility": "",
        "labelListVisibility": "",
        "type": "",
        "messagesTotal": "",
        "messagesUnread": "",
        "threadsTotal": "",
        "threadsUnread": "",
        "color": "LabelColor",
    },
    "LabelColor": {"textColor": "", "backgroundColor": ""},
}
