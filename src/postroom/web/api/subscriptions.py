"""The API operation that lists push subscriptions."""

from uuid import UUID

from postroom.api_types import ResultPage, SubscriptionResource
from postroom.model import Scope
from postroom.store.views import admin
from postroom.web.api import paging
from postroom.web.api.operations import ApiCall, NoParameters, Operation, PageQuery


class SubscriptionsQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    mailbox: UUID | None = None


async def list_subscriptions(
    call: ApiCall[NoParameters, SubscriptionsQuery, None],
) -> ResultPage[SubscriptionResource]:
    """List push subscriptions, including expired and replaced ones."""
    after = paging.parse_cursor(call.query, UUID)
    async with call.transaction() as connection:
        rows = await admin.list_subscriptions(
            connection, mailbox=call.query.mailbox, after=after, limit=call.query.limit + 1
        )
    return paging.build_page(rows, call.query, lambda row: row.id)


OPERATIONS = [Operation("GET", "/subscriptions", list_subscriptions, Scope.READ, "Mailboxes")]
