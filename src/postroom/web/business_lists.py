"""The lists of documents, records, orders, suppliers and messages, with the choices of their filters."""

from functools import partial

from starlette.routing import Route

from postroom.flow.documents import route
from postroom.store import mailboxes
from postroom.store.connection import Connection
from postroom.store.lists.documents import DOCUMENTS
from postroom.store.lists.list_definition import FilterChoice
from postroom.store.lists.list_parameters import Choices
from postroom.store.lists.messages import MESSAGES
from postroom.store.lists.orders import ORDERS
from postroom.store.lists.records import RECORDS
from postroom.store.lists.suppliers import SUPPLIERS
from postroom.web import field_labels, lists, orders
from postroom.web.document_context import DocumentPagesContext
from postroom.web.lists import ListPages


def routes(context: DocumentPagesContext) -> list[Route]:
    """The routes of all lists."""
    choose = partial(_list_choices, context)
    identify = partial(route.identify_all_earlier_records, context=context.review.routing)
    pages = [
        ListPages(context.site, DOCUMENTS, "documents.html", choose),
        ListPages(context.site, RECORDS, "records.html", choose),
        ListPages(context.site, ORDERS, "orders.html", choose, report=orders.read_import_report),
        ListPages(context.site, SUPPLIERS, "suppliers.html", choose, identify),
        ListPages(context.site, MESSAGES, "messages.html", _list_mailboxes),
    ]
    return [
        *(each_route for each in pages for each_route in lists.routes(each)),
        *lists.view_routes(context.site),
    ]


async def _list_choices(context: DocumentPagesContext, _: Connection) -> Choices:
    kinds = [FilterChoice(name, f"{field_labels.kind_label(name)}s") for name in context.review.routing.kinds]
    pipelines = [FilterChoice(name, name) for name in context.review.pipelines]
    return {"kind": kinds, "pipeline": pipelines}


async def _list_mailboxes(connection: Connection) -> Choices:
    found = await mailboxes.list_all(connection)
    return {"mailbox": [FilterChoice(str(mailbox.id), mailbox.address) for mailbox in found]}
