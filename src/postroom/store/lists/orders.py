"""The list of orders: purchases and trades for which documents are expected."""

from typing import Final

from postroom.store.lists.list_definition import (
    FilterChoice,
    ListColumn,
    ListDefinition,
    ListFilter,
    ListSort,
)

ORDERS: Final = ListDefinition(
    name="orders",
    title="Orders",
    noun=("order", "orders"),
    table="orders",
    joins="""
        LEFT JOIN LATERAL (
            SELECT records.id, coalesce(records.number, nullif(key, ''), 'Record') AS name FROM records
            WHERE order_id = orders.id LIMIT 1
        ) AS record ON true
    """,
    id="orders.id",
    id_type="uuid",
    columns=(
        ListColumn("reference", "Order", "reference", placement="heading"),
        ListColumn("username", "Ordered by", "username", placement="below"),
        ListColumn("supplier", "Supplier", "issuer_name(orders.fields)", trade=False),
        ListColumn("isin", "ISIN", "orders.fields->>'isin'", "code", trade=True),
        ListColumn(
            "security", "Security", "coalesce(orders.fields->>'name', orders.fields->>'ticker')", trade=True
        ),
        ListColumn("side", "Side", "orders.fields->>'direction'", "side", trade=True),
        ListColumn("quantity", "Quantity", "orders.fields->>'quantity'", "number", trade=True),
        ListColumn("price", "Price", "orders.fields->>'price'", "number", trade=True),
        ListColumn("date", "Date", "document_date(orders.fields)", "day", trade=False),
        ListColumn("amount", "Amount", "document_amount(orders.kind, orders.fields)", "amount", trade=False),
        ListColumn("amount", "Net", "document_amount(orders.kind, orders.fields)", "amount", trade=True),
        ListColumn("date", "Trade date", "document_date(orders.fields)", "day", trade=True),
        ListColumn("currency", "Currency", "document_currency(orders.fields)", placement="export"),
        ListColumn("kind", "Kind", "orders.kind", "kind", trade=False),
        ListColumn("record", "Record", "record.name", "code", link="/records/"),
        ListColumn("state", "State", "orders.state", "state"),
        ListColumn("created", "Age", "orders.created_at", "moment"),
    ),
    links=("record.id AS record_id",),
    filters=(
        ListFilter(
            "q", "Search",
            "concat_ws(' ', reference, username, fields->>'isin', fields->>'name', fields->>'supplier')"
            " ILIKE '%%' || %(q)s || '%%'",
            "search",
        ),
        ListFilter(
            "state", "State", "orders.state = %(state)s",
            choices=(
                FilterChoice("open", "Open"),
                FilterChoice("matched", "Matched"),
                FilterChoice("closed", "Closed"),
            ),
        ),
        ListFilter("kind", "Kind", "orders.kind = %(kind)s"),
    ),
    tabs="kind",
    tab_condition="orders.kind = chosen.value",
    sorts=(
        ListSort("created", "orders.created_at", "moment", is_descending=True),
        ListSort("reference", "orders.reference"),
    ),
)  # fmt: skip
