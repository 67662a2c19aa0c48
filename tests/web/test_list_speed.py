"""Lists read little more than the rows they show, however many there are, under row-level security."""

import pytest

from postroom.store.lists import list_reading
from postroom.store.lists.documents import DOCUMENTS
from postroom.store.lists.list_definition import ListPosition, ListQuery
from postroom.store.lists.records import RECORDS
from postroom.store.lists.suppliers import SUPPLIERS
from web.test_lists import read_headings

ROWS = 3_000  # more than a search sorts
FILL = (
    """
    INSERT INTO records (organization_id, kind, pipeline, fingerprint, key, confirmed_by, confirmed_at,
        supplier_id, supplier_pending, fields)
    SELECT %(organization)s, 'invoice', 'invoices', sha256(n::text::bytea), 'K-' || n, 'postroom',
        now() - n * interval '1 minute', md5((n %% 300)::text)::uuid, false,
        jsonb_build_object('supplier', 'Supplier ' || n %% 300, 'number', 'R-' || n, 'gross', n::text)
    FROM generate_series(1, %(rows)s) AS n
    """,
    "INSERT INTO blobs (organization_id, sha256, size) SELECT organization_id, fingerprint, 1 FROM records",
    """
    INSERT INTO documents (organization_id, pipeline, kind, sha256, media_type, state, record_id, created_at,
        supplier, number, amount, search)
    SELECT organization_id, 'invoices', kind, fingerprint, 'application/pdf', 'completed', id, confirmed_at,
        supplier, number, amount, file_name_search(supplier || ' ' || number)
    FROM records
    """,
    """
    INSERT INTO transcripts (organization_id, document_id, method, pages, text, words)
    SELECT organization_id, id, 'plain', 1, 'Rechnung', '[]' FROM documents WHERE amount %% 2 = 0
    """,
    "ANALYZE records, documents, transcripts",
)


@pytest.fixture
async def many(owner, organization):
    for statement in FILL:
        await owner.execute(statement, {"organization": organization, "rows": ROWS})


def count_rows(plan):
    """How many rows of tables a plan looked at."""
    own = 0
    if "Relation Name" in plan:
        dropped = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        own = (plan["Actual Rows"] + dropped) * plan["Actual Loops"]
    return own + sum(count_rows(each) for each in plan.get("Plans", ()))


async def read_plan(connection, definition, values, sort=None, after=None):
    order = definition.find_sort(sort)
    query = ListQuery(definition, values, order, is_descending=order.is_descending, after=after)
    statement, given = list_reading.build_statement(await list_reading.search(connection, query), 51)
    cursor = await connection.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + statement, given, prepare=False)
    [plan] = (await cursor.fetchone())[0]
    return plan["Plan"]


@pytest.mark.usefixtures("many")
async def test_page_of_a_long_list_reads_few_rows(database, organization):
    async with database.transaction(organization) as connection:
        cursor = await connection.execute(
            "SELECT id, name_key, amount_key FROM records WHERE number = 'R-150'"
        )
        [(last, name, amount)] = await cursor.fetchall()
        for definition in (RECORDS, DOCUMENTS):
            named = "name" if definition is RECORDS else "supplier"
            for values, sort, after in (
                ({"min": ROWS - 40.0}, None, None),
                ({}, named, ListPosition(name, last)),
                ({}, "amount", ListPosition(amount, last)),
                ({"q": "supplier"}, None, None),
                ({"q": "rechnung"}, None, None),
                ({"q": "R-2999"}, None, None),
            ):
                plan = await read_plan(connection, definition, values, sort, after)
                assert count_rows(plan) < 600, (definition.name, values, sort, plan)


@pytest.mark.usefixtures("many")
async def test_only_the_shown_suppliers_are_looked_up(database, organization):
    async with database.transaction(organization) as connection:
        plan = await read_plan(connection, SUPPLIERS, {})
    assert count_rows(plan) < ROWS + 51 * 25, plan


@pytest.mark.usefixtures("many")
async def test_common_word_finds_the_same_rows_as_a_rare_one(visitor):
    common = (await visitor.get("/documents?q=supplier")).text
    assert f"About {ROWS:,} documents" in common
    assert len(read_headings(common)) == 50
    assert read_headings(common) == read_headings((await visitor.get("/documents")).text)
    # Every other document has a transcript, which alone has this word.
    half = (await visitor.get("/records?q=rechnung&sort=-amount")).text
    assert "About 1,500 records" in half
    rare = (await visitor.get("/records?q=R-2999")).text
    assert "1 record" in rare
    assert len(read_headings(rare)) == 1
    # A common word among few rows is counted exactly.
    assert "11 documents" in (await visitor.get(f"/documents?q=supplier&min={ROWS - 10}")).text
