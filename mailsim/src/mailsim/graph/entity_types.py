"""EntityType, and a constant for each entity type of Graph that mailsim has, with its property types.

Also the message properties that Mail.ReadBasic hides. No values: `message_json` and the routes have the JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mailsim.graph.errors import (
    GraphError,
    undefined_property,
    unknown_property,
    unsimulated_property,
)
from mailsim.graph.unsimulated import USER_PROPERTIES

PropertyType = Literal[
    "text", "date", "bool", "enum", "number", "texts", "recipients", "object", "id", "properties", "arrays"
]


@dataclass(frozen=True, slots=True)
class EntityType:
    """An entity type of Graph: its properties with sub-paths, and its navigation properties."""

    name: str
    types: Mapping[str, PropertyType]
    spellings: Mapping[str, str]
    navigation: Mapping[str, str]
    unsimulated: frozenset[str]  # in lower case

    def resolve_path(self, written: str) -> str:
        spelling = self.spellings.get(written.lower())
        if spelling is None:
            raise self.reject(written.split("/", maxsplit=1)[0])
        return spelling

    def resolve_navigation(self, written: str) -> str:
        spelling = self.navigation.get(written.lower())
        if spelling is None:
            raise self.reject(written)
        return spelling

    def spelling(self, written: str) -> str:
        """Return Microsoft's spelling of a name in $select; a sub-path selects its first segment."""
        head = written.split("/", maxsplit=1)[0]
        spelling = self.spellings.get(head.lower()) or self.navigation.get(head.lower())
        if spelling is None:
            raise self.reject(head)
        return spelling

    def reject(self, written: str) -> GraphError:
        """Return the error for a name that this type lacks, or that only the real Graph has."""
        make_error = unsimulated_property if written.lower() in self.unsimulated else unknown_property
        return make_error(written, self.name)

    def check_written(self, written: str) -> None:
        """Raise for a name in a request's JSON that this type lacks, or that only the real Graph has.

        Unlike those in query options, these names are case-sensitive.
        """
        if written.lower() in self.unsimulated:
            raise unsimulated_property(written, self.name)
        if written not in self.types and written not in self.navigation.values():
            raise undefined_property(written, self.name)

    def property_type(self, path: str) -> PropertyType:
        return self.types[path]


def make_entity_type(
    name: str,
    types: Mapping[str, PropertyType],
    navigation: tuple[str, ...] = (),
    unsimulated: frozenset[str] = frozenset(),
) -> EntityType:
    return EntityType(
        name,
        types,
        {path.lower(): path for path in types},
        {nav.lower(): nav for nav in navigation},
        unsimulated,
    )


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
    "singleValueExtendedProperties": "properties",
    "multiValueExtendedProperties": "arrays",
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
        "city": "text",
        "companyName": "text",
        "country": "text",
        "department": "text",
        "employeeId": "text",
        "employeeType": "text",
        "faxNumber": "text",
        "mailNickname": "text",
        "otherMails": "texts",
        "postalCode": "text",
        "proxyAddresses": "texts",
        "state": "text",
        "streetAddress": "text",
        "usageLocation": "text",
    },
    unsimulated=USER_PROPERTIES,
)
GROUP = make_entity_type(
    "group",
    {
        "id": "id",
        "displayName": "text",
        "description": "text",
        "mail": "text",
        "mailNickname": "text",
        "mailEnabled": "bool",
        "securityEnabled": "bool",
        "groupTypes": "texts",
    },
)
MAILBOX_SETTINGS = make_entity_type(
    "mailboxSettings",
    {
        "archiveFolder": "text",
        "timeZone": "text",
        "delegateMeetingMessageDeliveryOptions": "enum",
        "dateFormat": "text",
        "timeFormat": "text",
        "userPurpose": "enum",
        "automaticRepliesSetting": "object",
        "language": "object",
        "workingHours": "object",
    },
)
# Mail.ReadBasic hides these.
PRIVATE = frozenset({"body", "uniqueBody", "bodyPreview", "attachments", "extensions"})
