"""The list of records: confirmed invoices and trades."""

from typing import Final

from postroom.store.lists.document_filters import AMOUNT_FILTERS, DATE_FILTERS, DUE_FILTER
from postroom.store.lists.list_definition import (
    FilterChoice,
    ListColumn,
    ListDefinition,
    ListFilter,
    ListSort,
    ListTotals,
)

RECORDS: Final = ListDefinition(
    name="records",
    title="Records",
    noun=("record", "records"),
    table="records",
    joins="LEFT JOIN orders ON orders.id = order_id",
    id="records.id",
    id_type="uuid",
    columns=(
        ListColumn(
            "name", "Supplier",
            "coalesce(supplier, CASE WHEN records.kind = 'contract-note' THEN 'Unnamed broker'"
            " ELSE 'Unnamed supplier' END)",
            placement="heading", trade=False,
        ),
        ListColumn(
            "security", "Security",
            "CASE WHEN records.kind = 'contract-note' THEN coalesce(records.fields->>'name',"
            " records.fields->>'ticker', records.fields->>'isin') END",
            placement="below", trade=False,
        ),
        ListColumn("number", "Number", "number", "code", trade=False),
        ListColumn(
            "name", "Security",
            "coalesce(records.fields->>'name', records.fields->>'ticker', records.fields->>'isin',"
            " nullif(key, ''), 'Unnamed record')",
            placement="heading", trade=True,
        ),
        ListColumn("isin", "ISIN", "records.fields->>'isin'", "code", trade=True),
        ListColumn("side", "Side", "records.fields->>'direction'", "side", trade=True),
        ListColumn("quantity", "Quantity", "records.fields->>'quantity'", "number", trade=True),
        ListColumn("price", "Price", "records.fields->>'price'", "number", trade=True),
        ListColumn("date", "Date", "dated", "day", trade=False),
        ListColumn("due", "Due", "due", "day", trade=False),
        ListColumn("amount", "Amount", "amount", "amount", trade=False),
        ListColumn("amount", "Net", "amount", "amount", trade=True),
        ListColumn("date", "Trade date", "dated", "day", trade=True),
        ListColumn("supplier", "Bank or broker", "supplier", trade=True),
        ListColumn("currency", "Currency", "currency", placement="export"),
        ListColumn("order", "Order", "orders.reference", "code", link="/orders/"),
        ListColumn("state", "State", "records.state", "state"),
        ListColumn("confirmed", "Age", "records.confirmed_at", "moment"),
        ListColumn("kind", "Kind", "records.kind", "kind", placement="export"),
        ListColumn("key", "Key", "key", placement="export"),
        ListColumn("record", "Record ID", "records.id::text", placement="export"),
    ),
    links=("order_id",),
    filters=(
        # A record is found by the text of its documents and the names they came with.
        ListFilter(
            "q", "Search",
            "(SELECT bool_or(documents.search @@ prefix_query(%(q)s)"
            " OR transcripts.search @@ prefix_query(%(q)s))"
            " FROM documents LEFT JOIN transcripts ON document_id = documents.id"
            " WHERE documents.record_id = records.id)",
            "search",
            search="SELECT some_matching_documents(prefix_query(%(q)s), %(at_most)s)",
            found="records.id IN (SELECT record_id FROM documents WHERE documents.id = ANY(%(found)s))",
        ),
        ListFilter(
            "state", "State", "records.state = %(state)s",
            choices=(
                FilterChoice("confirmed", "Confirmed"),
                FilterChoice("reopened", "Reopened"),
                FilterChoice("voided", "Voided"),
                FilterChoice("merged", "Merged"),
                FilterChoice("all", "All"),
            ),
            otherwise="records.state IN ('confirmed', 'reopened')", default_label="Confirmed and reopened",
        ),
        ListFilter("kind", "Kind", "records.kind = %(kind)s"),
        ListFilter(
            "order", "Order", "false",
            choices=(
                FilterChoice("linked", "With an order", "order_id IS NOT NULL"),
                FilterChoice("missing", "Without an order", "order_id IS NULL"),
            ),
        ),
        DUE_FILTER,
        ListFilter("supplier", "Supplier", "supplier_id = %(supplier)s", "uuid"),
        *DATE_FILTERS,
        *AMOUNT_FILTERS,
    ),
    tabs="kind",
    tab_condition="records.kind = chosen.value",
    sorts=(
        ListSort("confirmed", "records.confirmed_at", "moment", is_descending=True),
        ListSort("name", "name_key"),
        ListSort("number", "coalesce(number, '')"),
        ListSort("date", "coalesce(dated, '')", is_descending=True),
        ListSort("due", "coalesce(due, '')"),
        ListSort("amount", "amount_key", "number", is_descending=True),
    ),
    totals=ListTotals(
        "CASE WHEN kind <> 'contract-note' THEN 'Invoices' WHEN fields->>'direction' = 'buy' THEN 'Bought'"
        " WHEN fields->>'direction' = 'sell' THEN 'Sold' ELSE 'Trades' END",
        "amount",
        "currency",
        "state = 'confirmed'",
    ),
)  # fmt: skip
