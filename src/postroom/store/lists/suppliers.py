"""The list of suppliers and brokers: the issuers of live records."""

from typing import Final

from postroom.store.lists.list_definition import ListColumn, ListDefinition, ListFilter, ListSort

SUPPLIERS: Final = ListDefinition(
    name="suppliers",
    title="Suppliers",
    noun=("supplier", "suppliers"),
    # One of its names, to sort and search by. The shown one is that of the newest record.
    table="""
        (
            SELECT supplier_id AS id, min(kind) AS kind, count(*) AS records, max(confirmed_at) AS newest_at,
                max(supplier) AS name
            FROM records WHERE supplier_id IS NOT NULL AND state IN ('confirmed', 'reopened')
            GROUP BY supplier_id
        ) AS suppliers
    """,
    joins="""
        LEFT JOIN LATERAL (
            SELECT supplier AS name FROM records
            WHERE organization_id = current_organization() AND supplier_id = suppliers.id
                AND supplier IS NOT NULL AND state IN ('confirmed', 'reopened')
            ORDER BY confirmed_at DESC, id DESC LIMIT 1
        ) AS newest ON true
        LEFT JOIN LATERAL (
            SELECT fields->>'vat_id' AS vat_id FROM records
            WHERE supplier_id = suppliers.id AND fields->>'vat_id' <> '' ORDER BY confirmed_at DESC LIMIT 1
        ) AS known ON true
        LEFT JOIN LATERAL (
            SELECT coalesce(
                'VAT ID ' || known.vat_id,
                'IBAN …' || right(nullif(fields->>'iban', ''), 4),
                'from ' || (
                    SELECT arrivals.sender FROM documents JOIN arrivals ON arrivals.document_id = documents.id
                    WHERE documents.record_id = records.id AND arrivals.sender <> ''
                    ORDER BY arrivals.id LIMIT 1
                )
            ) AS identifier
            FROM records
            WHERE newest.name IS NULL AND organization_id = current_organization()
                AND supplier_id = suppliers.id AND state IN ('confirmed', 'reopened')
            ORDER BY confirmed_at DESC, id DESC LIMIT 1
        ) AS unnamed ON true
        LEFT JOIN LATERAL (
            SELECT max(dated) AS newest_on,
                jsonb_agg(jsonb_build_array(currency, total::text) ORDER BY total DESC)
                    FILTER (WHERE total IS NOT NULL) AS amounts
            FROM (
                SELECT currency, max(dated) AS dated, sum(amount) AS total FROM records
                WHERE supplier_id = suppliers.id AND state = 'confirmed'
                    AND dated >= to_char(postroom_now() - interval '1 year', 'YYYY-MM-DD')
                GROUP BY currency
            ) AS year
        ) AS spent ON true
    """,
    id="suppliers.id",
    id_type="uuid",
    is_aggregate=True,
    columns=(
        ListColumn(
            "name",
            "Supplier",
            "coalesce(newest.name, CASE WHEN suppliers.kind = 'contract-note' THEN 'Unnamed broker'"
            " ELSE 'Unnamed supplier' END)",
            placement="heading",
        ),
        ListColumn("identifier", "Identifier", "unnamed.identifier", placement="below"),
        ListColumn("vat_id", "VAT ID", "known.vat_id", "code"),
        ListColumn("kind", "Kind", "suppliers.kind", "kind"),
        ListColumn("records", "Records", "suppliers.records", "number"),
        ListColumn("newest_on", "Newest document", "spent.newest_on", "day"),
        ListColumn("amounts", "Last 12 months", "spent.amounts", "amounts"),
        ListColumn("newest", "Last confirmed", "suppliers.newest_at", "moment"),
    ),
    filters=(
        ListFilter("q", "Search", "suppliers.name ILIKE '%%' || %(q)s || '%%'", "search"),
        ListFilter("kind", "Kind", "suppliers.kind = %(kind)s"),
    ),
    tabs="",
    tab_condition="",
    sorts=(
        ListSort("newest", "suppliers.newest_at", "moment", is_descending=True),
        ListSort("name", "lower(coalesce(suppliers.name, ''))"),
        ListSort("records", "suppliers.records::float8", "number", is_descending=True),
    ),
)
