"""The list of messages in all mailboxes of an organization."""

from typing import Final

from postroom.store.lists.list_definition import (
    FilterChoice,
    ListColumn,
    ListDefinition,
    ListFilter,
    ListSort,
)

MESSAGES: Final = ListDefinition(
    name="messages",
    title="Messages",
    noun=("message", "messages"),
    table="messages",
    joins="""
        LEFT JOIN mailboxes ON mailboxes.id = mailbox_id
        LEFT JOIN LATERAL (
            SELECT count(*) AS files FROM attachments WHERE message_id = messages.id AND NOT is_inline
        ) AS attached ON true
        LEFT JOIN LATERAL (
            SELECT count(DISTINCT document_id) AS documents FROM arrivals WHERE message_id = messages.id
        ) AS taken ON true
    """,
    id="messages.id",
    id_type="bigint",
    columns=(
        ListColumn(
            "subject", "Subject", "coalesce(nullif(subject, ''), '(no subject)')", placement="heading"
        ),
        ListColumn("sender", "From", "coalesce(nullif(from_name, ''), from_address)"),
        ListColumn("address", "Sender address", "from_address", placement="export"),
        ListColumn("mailbox", "Mailbox", "mailboxes.address", link="/mailboxes/"),
        ListColumn("files", "Attachments", "attached.files", "number"),
        ListColumn("documents", "Documents", "taken.documents", "number"),
        ListColumn("received", "Received", "received_at", "moment"),
    ),
    links=("mailbox_id",),
    filters=(
        ListFilter(
            "q", "Search",
            "(SELECT search @@ prefix_query(%(q)s) FROM message_contents WHERE message_id = messages.id)",
            "search",
            search="SELECT some_matching_messages(prefix_query(%(q)s), %(at_most)s)",
            found="messages.id = ANY(%(found)s)",
        ),
        ListFilter("mailbox", "Mailbox", "messages.mailbox_id = %(mailbox)s::uuid"),
        ListFilter(
            "attachments", "Attachments", "false",
            choices=(
                FilterChoice("yes", "With attachments", "messages.has_attachments"),
                FilterChoice("no", "Without attachments", "NOT messages.has_attachments"),
            ),
        ),
        ListFilter(
            "deleted", "Deleted", "false", otherwise="messages.deleted_at IS NULL",
            choices=(FilterChoice("all", "Include deleted"),),
        ),
        ListFilter("from", "Received from", "messages.received_at >= %(from)s::date", "day"),
        ListFilter("until", "Received until", "messages.received_at < %(until)s::date + 1", "day"),
    ),
    tabs="mailbox",
    tab_condition="messages.mailbox_id = chosen.value::uuid",
    sorts=(ListSort("received", "messages.received_at", "moment", is_descending=True, nulls_first=True),),
)  # fmt: skip
