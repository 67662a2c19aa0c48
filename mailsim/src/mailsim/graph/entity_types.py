"""Constants: Graph's entity types (message, folder, attachment, user) with the types of their properties.

Also the message properties that Mail.ReadBasic hides. `filters` defines EntityType.
"""

from mailsim.graph.filters import PropertyType, make_entity_type

_PERSON: dict[str, PropertyType] = {
    "emailAddress": "object",
    "emailAddress/name": "text",
    "emailAddress/address": "text",
}
_MESSAGE: dict[str, PropertyType] = {
    "id": "id",
    "createdDateTime": "date",
    "lastModifiedDateTime": "date",
    "changeKey": "text",
    "categories": "texts",
    "receivedDateTime": "date",
    "sentDateTime": "date",
    "hasAttachments": "bool",
    "internetMessageId": "text",
    "internetMessageHeaders": "object",
    "subject": "text",
    "body": "object",
    "body/content": "text",
    "uniqueBody": "object",
    "bodyPreview": "text",
    "importance": "enum",
    "parentFolderId": "id",
    "sender": "object",
    **{f"sender/{name}": kind for name, kind in _PERSON.items()},
    "from": "object",
    **{f"from/{name}": kind for name, kind in _PERSON.items()},
    "toRecipients": "recipients",
    "ccRecipients": "recipients",
    "bccRecipients": "recipients",
    "replyTo": "recipients",
    "conversationId": "id",
    "conversationIndex": "text",
    "isDeliveryReceiptRequested": "bool",
    "isReadReceiptRequested": "bool",
    "isRead": "bool",
    "isDraft": "bool",
    "webLink": "text",
    "inferenceClassification": "enum",
    "flag": "object",
    "flag/flagStatus": "enum",
    "meetingMessageType": "enum",
}
MESSAGE = make_entity_type(
    "message",
    _MESSAGE,
    ("attachments", "extensions", "singleValueExtendedProperties", "multiValueExtendedProperties"),
)
FOLDER = make_entity_type(
    "mailFolder",
    {
        "id": "id",
        "displayName": "text",
        "parentFolderId": "id",
        "childFolderCount": "number",
        "unreadItemCount": "number",
        "totalItemCount": "number",
        "isHidden": "bool",
    },
    ("childFolders", "messages", "messageRules", "singleValueExtendedProperties"),
)
ATTACHMENT = make_entity_type(
    "attachment",
    {
        "id": "id",
        "lastModifiedDateTime": "date",
        "name": "text",
        "contentType": "text",
        "size": "number",
        "isInline": "bool",
    },
    ("microsoft.graph.itemattachment/item",),
)
USER = make_entity_type(
    "user",
    {
        "id": "id",
        "displayName": "text",
        "givenName": "text",
        "surname": "text",
        "mail": "text",
        "userPrincipalName": "text",
        "jobTitle": "text",
        "businessPhones": "texts",
        "mobilePhone": "text",
        "officeLocation": "text",
        "preferredLanguage": "text",
        "accountEnabled": "bool",
        "userType": "text",
    },
)
# Mail.ReadBasic hides these.
PRIVATE = frozenset({"body", "uniqueBody", "bodyPreview", "attachments", "extensions"})
