-- Under row-level security an index finds rows only by leakproof operators. Casting a numeric and lower() are not, so what
-- lists compare them with is a column.
ALTER TABLE records
    ADD COLUMN name_key text GENERATED ALWAYS AS (lower(coalesce(issuer_name(fields), ''))) STORED,
    ADD COLUMN amount_key float8 GENERATED ALWAYS AS (coalesce(document_amount(kind, fields)::float8, '-infinity')) STORED;
ALTER TABLE documents
    ADD COLUMN name_key text GENERATED ALWAYS AS (lower(coalesce(supplier, ''))) STORED,
    ADD COLUMN amount_key float8 GENERATED ALWAYS AS (coalesce(amount::float8, '-infinity')) STORED;
COMMENT ON COLUMN records.name_key IS 'The supplier as lists sort by it, in lower case.';
COMMENT ON COLUMN records.amount_key IS 'The amount as lists compare it; -infinity if there is none.';
COMMENT ON COLUMN documents.name_key IS 'The supplier as lists sort by it, in lower case.';
COMMENT ON COLUMN documents.amount_key IS 'The amount as lists compare it; -infinity if there is none.';
DROP INDEX records_by_name, records_by_amount, documents_by_name, documents_by_amount;
CREATE INDEX records_by_name ON records (organization_id, name_key, id);
CREATE INDEX records_by_amount ON records (organization_id, amount_key, id);
CREATE INDEX documents_by_name ON documents (organization_id, name_key, id);
CREATE INDEX documents_by_amount ON documents (organization_id, amount_key, id);

-- The list of suppliers groups all live records by what this index holds.
CREATE INDEX records_of_suppliers ON records (organization_id, supplier_id) INCLUDE (kind, confirmed_at, supplier)
    WHERE supplier_id IS NOT NULL AND state IN ('confirmed', 'reopened');
-- Counts messages with attachments without reading the rows.
CREATE INDEX messages_with_attachments ON messages (organization_id, received_at DESC, id DESC)
    WHERE has_attachments AND deleted_at IS NULL;

-- Some of the matches, in no order. A list sorts few of them; if there are more, it tests its rows in its own order
-- until the page is full. Planned for the query: a rare word is found by the index, a common one in the first rows.
CREATE FUNCTION some_matching_messages(query tsquery, at_most integer) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = postroom, pg_temp AS $$
BEGIN
    RETURN QUERY EXECUTE 'SELECT message_id FROM message_contents
        WHERE search @@ $1 AND organization_id = current_organization() LIMIT $2'
    USING query, at_most;
END $$;
CREATE FUNCTION some_matching_documents(query tsquery, at_most integer) RETURNS SETOF uuid
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = postroom, pg_temp AS $$
BEGIN
    RETURN QUERY EXECUTE '(SELECT document_id FROM transcripts
            WHERE search @@ $1 AND organization_id = current_organization() LIMIT $2)
        UNION
        (SELECT id FROM documents WHERE search @@ $1 AND organization_id = current_organization() LIMIT $2)
        LIMIT $2'
    USING query, at_most;
END $$;
REVOKE ALL ON FUNCTION some_matching_messages(tsquery, integer), some_matching_documents(tsquery, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION some_matching_messages(tsquery, integer), some_matching_documents(tsquery, integer)
    TO postroom_application;
DROP FUNCTION matching_records(tsquery);
