"""The list of documents: what arrived, what was read from it, and what became of it."""

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

STATES: Final = (
    FilterChoice("needs_review", "Needs review"),
    FilterChoice("queued", "Queued"),
    FilterChoice("processing", "Processing"),
    FilterChoice("completed", "Completed"),
    FilterChoice("skipped", "Skipped"),
    FilterChoice("failed", "Failed"),
    FilterChoice("all", "All"),
)

DOCUMENTS: Final = ListDefinition(
    name="documents",
    title="Documents",
    noun=("document", "documents"),
    table="documents",
    joins="""
        LEFT JOIN records ON records.id = record_id
        LEFT JOIN reviews ON reviews.document_id = documents.id AND decision IS NULL
        LEFT JOIN LATERAL (
            SELECT file_name, sender FROM arrivals
            WHERE document_id = documents.id ORDER BY arrivals.id DESC LIMIT 1
        ) AS newest ON true
        LEFT JOIN LATERAL (
            SELECT fields FROM extractions
            WHERE document_id = documents.id AND documents.kind = 'contract-note' ORDER BY id DESC LIMIT 1
        ) AS extraction ON true
    """,
    id="documents.id",
    id_type="uuid",
    columns=(
        ListColumn("file", "File", "coalesce(file_name, 'Unnamed file')", placement="heading"),
        ListColumn("sender", "From", "newest.sender", placement="below"),
        ListColumn("supplier", "Supplier", "documents.supplier", trade=False),
        ListColumn("number", "Number", "documents.number", "code", trade=False),
        ListColumn("supplier", "Bank or broker", "documents.supplier", trade=True),
        ListColumn(
            "isin", "ISIN", "coalesce(records.fields->>'isin', extraction.fields->'isin'->>'value')",
            "code", trade=True,
        ),
        ListColumn(
            "side", "Side",
            "coalesce(records.fields->>'direction', extraction.fields->'direction'->>'value')",
            "side", trade=True,
        ),
        ListColumn(
            "quantity", "Quantity",
            "coalesce(records.fields->>'quantity', extraction.fields->'quantity'->>'value')",
            "number", trade=True,
        ),
        ListColumn(
            "price", "Price", "coalesce(records.fields->>'price', extraction.fields->'price'->>'value')",
            "number", trade=True,
        ),
        ListColumn("date", "Date", "documents.dated", "day", trade=False),
        ListColumn("due", "Due", "documents.due", "day", trade=False),
        ListColumn("amount", "Amount", "documents.amount", "amount", trade=False),
        ListColumn("amount", "Net", "documents.amount", "amount", trade=True),
        ListColumn("date", "Trade date", "documents.dated", "day", trade=True),
        ListColumn("currency", "Currency", "documents.currency", placement="export"),
        ListColumn("state", "State", "documents.state", "state"),
        ListColumn(
            "reason", "Reason", "coalesce(skip_reason, last_error, reviews.reason)", placement="below"
        ),
        ListColumn("created", "Age", "documents.created_at", "moment"),
        ListColumn("kind", "Kind", "documents.kind", "kind", placement="export"),
        ListColumn("pipeline", "Pipeline", "documents.pipeline", placement="export"),
    ),
    filters=(
        ListFilter(
            "q", "Search",
            "(documents.search @@ prefix_query(%(q)s) OR (SELECT search @@ prefix_query(%(q)s)"
            " FROM transcripts WHERE document_id = documents.id))",
            "search",
            search="SELECT some_matching_documents(prefix_query(%(q)s), %(at_most)s)",
            found="documents.id = ANY(%(found)s)",
        ),
        ListFilter(
            "state", "State", "documents.state = %(state)s", choices=STATES,
            otherwise="documents.state <> 'skipped'", default_label="All except skipped",
        ),
        ListFilter("kind", "Kind", "documents.kind = %(kind)s"),
        ListFilter("pipeline", "Pipeline", "documents.pipeline = %(pipeline)s"),
        DUE_FILTER,
        *DATE_FILTERS,
        *AMOUNT_FILTERS,
    ),
    tabs="state",
    tab_condition="documents.state = chosen.value",
    sorts=(
        ListSort("created", "documents.created_at", "moment", is_descending=True),
        ListSort("supplier", "documents.name_key"),
        ListSort("date", "coalesce(documents.dated, '')", is_descending=True),
        ListSort("due", "coalesce(documents.due, '')"),
        ListSort("amount", "documents.amount_key", "number", is_descending=True),
    ),
    totals=ListTotals(
        "'Needs review'", "documents.amount", "documents.currency", "documents.state = 'needs_review'"
    ),
)  # fmt: skip
