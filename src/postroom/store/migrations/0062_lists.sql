-- Lists show and sort business values: who issued a document, its number, dates and amount.

-- The values of a record or document, from the fields of its kind. Dates stay text in ISO form, which sorts as they do.
CREATE FUNCTION issuer_name(fields jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN nullif(left(coalesce(fields->>'supplier', fields->>'broker', fields->>'bank', fields->>'issuer'), 200), '');
CREATE FUNCTION document_number(fields jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN nullif(left(fields->>'number', 200), '');
CREATE FUNCTION document_date(fields jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN substring(coalesce(fields->>'trade_date', fields->>'issued_on', fields->>'date') FROM '^\d{4}-\d\d-\d\d$');
CREATE FUNCTION due_date(fields jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN substring(coalesce(fields->>'due_on', fields->>'settlement_date') FROM '^\d{4}-\d\d-\d\d$');
CREATE FUNCTION document_amount(kind text, fields jsonb) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN substring(CASE WHEN kind = 'contract-note' THEN coalesce(fields->>'net', fields->>'gross')
        ELSE coalesce(fields->>'gross', fields->>'net', fields->>'amount', fields->>'total') END
        FROM '^-?\d{1,30}(?:\.\d{1,20})?$')::numeric;
CREATE FUNCTION document_currency(fields jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN nullif(left(fields->>'currency', 10), '');
REVOKE ALL ON FUNCTION issuer_name(jsonb), document_number(jsonb), document_date(jsonb), due_date(jsonb),
    document_amount(text, jsonb), document_currency(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION issuer_name(jsonb), document_number(jsonb), document_date(jsonb), due_date(jsonb),
    document_amount(text, jsonb), document_currency(jsonb) TO postroom_application;

ALTER TABLE records
    ADD COLUMN supplier text GENERATED ALWAYS AS (issuer_name(fields)) STORED,
    ADD COLUMN number text GENERATED ALWAYS AS (document_number(fields)) STORED,
    ADD COLUMN dated text GENERATED ALWAYS AS (document_date(fields)) STORED,
    ADD COLUMN due text GENERATED ALWAYS AS (due_date(fields)) STORED,
    ADD COLUMN amount numeric GENERATED ALWAYS AS (document_amount(kind, fields)) STORED,
    ADD COLUMN currency text GENERATED ALWAYS AS (document_currency(fields)) STORED,
    ADD COLUMN supplier_id uuid,
    ADD COLUMN supplier_pending boolean NOT NULL DEFAULT true;
COMMENT ON COLUMN records.supplier IS 'The supplier of an invoice, the broker of a trade. This and the next columns are for lists.';
COMMENT ON COLUMN records.due IS 'When an invoice is due or a trade settles.';
COMMENT ON COLUMN records.amount IS 'The gross amount of an invoice, the net amount of a trade.';
COMMENT ON COLUMN records.supplier_id IS 'Equal for records of one issuer: those that share its name or its VAT ID in record_identifiers.';
COMMENT ON COLUMN records.supplier_pending IS 'Identifiers and supplier are not stored yet. The next lookup adds them.';
DROP INDEX records_with_issuer_pending;
ALTER TABLE records DROP COLUMN issuer_pending;
CREATE INDEX records_with_supplier_pending ON records (organization_id, pipeline) WHERE supplier_pending;
CREATE INDEX record_identifiers_by_digest ON record_identifiers (organization_id, identifier_sha256);
CREATE INDEX records_by_supplier ON records (organization_id, supplier_id, confirmed_at DESC, id DESC);
CREATE INDEX records_newest_first ON records (organization_id, confirmed_at DESC, id DESC);
CREATE INDEX records_by_name ON records (organization_id, lower(coalesce(supplier, '')), id);
CREATE INDEX records_by_number ON records (organization_id, coalesce(number, ''), id);
CREATE INDEX records_by_date ON records (organization_id, coalesce(dated, ''), id);
CREATE INDEX records_by_due_date ON records (organization_id, coalesce(due, ''), id);
CREATE INDEX records_by_amount ON records (organization_id, coalesce(amount::float8, '-infinity'), id);
CREATE INDEX records_by_state ON records (organization_id, state, confirmed_at DESC, id DESC);
CREATE INDEX records_by_kind ON records (organization_id, kind, confirmed_at DESC, id DESC);

-- A document has the values of its record, or else what was read from it.
ALTER TABLE documents
    ADD COLUMN supplier text,
    ADD COLUMN number text,
    ADD COLUMN dated text,
    ADD COLUMN due text,
    ADD COLUMN amount numeric,
    ADD COLUMN currency text,
    ADD COLUMN search tsvector NOT NULL DEFAULT '';
COMMENT ON COLUMN documents.supplier IS 'This and the next columns are those of the record, or else what was read. Triggers set them.';
COMMENT ON COLUMN documents.search IS 'Supplier, number, and the names, senders and subjects with which the file arrived. A trigger sets it.';

CREATE FUNCTION arrival_search(document uuid, supplier text, number text) RETURNS tsvector LANGUAGE sql STABLE
    BEGIN ATOMIC
        SELECT file_name_search(concat_ws(' ', supplier, number, string_agg(concat_ws(' ', file_name, sender, subject), ' ')))
        FROM arrivals WHERE document_id = document;
    END;
REVOKE ALL ON FUNCTION arrival_search(uuid, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION arrival_search(uuid, text, text) TO postroom_application;

CREATE FUNCTION copy_record_values() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT supplier, number, dated, due, amount, currency
    INTO NEW.supplier, NEW.number, NEW.dated, NEW.due, NEW.amount, NEW.currency
    FROM postroom.records WHERE organization_id = NEW.organization_id AND id = NEW.record_id;
    NEW.search := postroom.arrival_search(NEW.id, NEW.supplier, NEW.number);
    RETURN NEW;
END $$;
CREATE TRIGGER copy_record_values BEFORE UPDATE OF record_id ON documents FOR EACH ROW
    WHEN (NEW.record_id IS NOT NULL AND NEW.record_id IS DISTINCT FROM OLD.record_id)
    EXECUTE FUNCTION copy_record_values();

CREATE FUNCTION spread_record_values() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE postroom.documents SET supplier = NEW.supplier, number = NEW.number, dated = NEW.dated, due = NEW.due,
        amount = NEW.amount, currency = NEW.currency,
        search = postroom.arrival_search(id, NEW.supplier, NEW.number)
    WHERE record_id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER spread_record_values AFTER UPDATE OF fields ON records FOR EACH ROW
    WHEN (NEW.fields IS DISTINCT FROM OLD.fields) EXECUTE FUNCTION spread_record_values();

CREATE FUNCTION copy_extracted_values() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    read jsonb := (SELECT jsonb_object_agg(name, field->'value') FROM jsonb_each(NEW.fields) AS read (name, field)
        WHERE jsonb_typeof(field) = 'object');
BEGIN
    UPDATE postroom.documents SET supplier = postroom.issuer_name(read), number = postroom.document_number(read),
        dated = postroom.document_date(read), due = postroom.due_date(read),
        amount = postroom.document_amount(NEW.kind, read), currency = postroom.document_currency(read),
        search = postroom.arrival_search(id, postroom.issuer_name(read), postroom.document_number(read))
    WHERE id = NEW.document_id AND record_id IS NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER copy_extracted_values AFTER INSERT ON extractions FOR EACH ROW EXECUTE FUNCTION copy_extracted_values();

CREATE FUNCTION index_arrival() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE postroom.documents SET search = postroom.arrival_search(id, supplier, number) WHERE id = NEW.document_id;
    RETURN NULL;
END $$;
CREATE TRIGGER index_arrival AFTER INSERT OR UPDATE OF file_name, sender, subject ON arrivals
    FOR EACH ROW EXECUTE FUNCTION index_arrival();

REVOKE ALL ON FUNCTION copy_record_values(), spread_record_values(), copy_extracted_values(), index_arrival() FROM PUBLIC;

UPDATE documents SET supplier = issuer_name(read), number = document_number(read), dated = document_date(read),
    due = due_date(read), amount = document_amount(newest.kind, read), currency = document_currency(read)
FROM (
    SELECT DISTINCT ON (document_id) document_id, kind,
        (SELECT jsonb_object_agg(name, field->'value') FROM jsonb_each(fields) AS read (name, field)
            WHERE jsonb_typeof(field) = 'object') AS read
    FROM extractions ORDER BY document_id, id DESC
) AS newest
WHERE id = document_id;
UPDATE documents SET supplier = records.supplier, number = records.number, dated = records.dated, due = records.due,
    amount = records.amount, currency = records.currency
FROM records WHERE records.organization_id = documents.organization_id AND records.id = record_id;
UPDATE documents SET search = arrival_search(id, supplier, number);

CREATE INDEX documents_search ON documents USING gin (search);
CREATE INDEX documents_newest_first ON documents (organization_id, created_at DESC, id DESC);
CREATE INDEX documents_unskipped ON documents (organization_id, created_at DESC, id DESC) WHERE state <> 'skipped';
DROP INDEX documents_by_state;
CREATE INDEX documents_by_state ON documents (organization_id, state, created_at DESC, id DESC);
CREATE INDEX documents_by_name ON documents (organization_id, lower(coalesce(supplier, '')), id);
CREATE INDEX documents_by_date ON documents (organization_id, coalesce(dated, ''), id);
CREATE INDEX documents_by_due_date ON documents (organization_id, coalesce(due, ''), id);
CREATE INDEX documents_by_amount ON documents (organization_id, coalesce(amount::float8, '-infinity'), id);
CREATE INDEX documents_by_kind ON documents (organization_id, kind, created_at DESC, id DESC);
CREATE INDEX orders_newest_first ON orders (organization_id, created_at DESC, id DESC);
CREATE INDEX orders_by_state ON orders (organization_id, state, created_at DESC, id DESC);
CREATE INDEX orders_by_reference ON orders (organization_id, reference, id);

CREATE OR REPLACE FUNCTION matching_documents(query tsquery) RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER
    BEGIN ATOMIC
        SELECT document_id FROM transcripts WHERE search @@ query AND organization_id = current_organization()
        UNION
        SELECT id FROM documents WHERE search @@ query AND organization_id = current_organization();
    END;
-- A record is found by the text of its documents and the names they came with.
CREATE FUNCTION matching_records(query tsquery) RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER
    BEGIN ATOMIC
        SELECT DISTINCT record_id FROM documents
        WHERE record_id IS NOT NULL AND id IN (SELECT matching_documents(query))
            AND organization_id = current_organization();
    END;
REVOKE ALL ON FUNCTION matching_records(tsquery) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION matching_records(tsquery) TO postroom_application;

-- Web search syntax, in which a word of three characters or more also finds the words that begin with it.
CREATE FUNCTION prefix_query(words text) RETURNS tsquery LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN regexp_replace(
        regexp_replace(websearch_to_tsquery('simple', words)::text, '''(([^'']|'''')+)''', '''\1'':*', 'g'),
        '''([^'']{1,2})'':\*', '''\1''', 'g')::tsquery;
REVOKE ALL ON FUNCTION prefix_query(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION prefix_query(text) TO postroom_application;

CREATE INDEX messages_of_organization ON messages (organization_id, received_at DESC, id DESC);
-- A rare label is found by this index, a common one by walking the newest messages. The planner chooses by the label,
-- so the statement is planned for it. As with matching_messages, the owner asks: containment of arrays might leak.
CREATE INDEX messages_by_label ON messages USING gin (labels);
CREATE FUNCTION labelled_messages(mailbox uuid, label text, is_first boolean, at timestamptz, last bigint, page_size integer)
    RETURNS SETOF bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = postroom, pg_temp AS $$
BEGIN
    RETURN QUERY EXECUTE 'SELECT id FROM messages
        WHERE organization_id = current_organization() AND mailbox_id = $1 AND labels @> ARRAY[$2]
            AND ($3 OR (received_at, id) < ($4, $5)
                OR ($4::timestamptz IS NULL AND (received_at IS NOT NULL OR id < $5)))
        ORDER BY received_at DESC, id DESC LIMIT $6'
    USING mailbox, label, is_first, at, last, page_size;
END $$;
REVOKE ALL ON FUNCTION labelled_messages(uuid, text, boolean, timestamptz, bigint, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION labelled_messages(uuid, text, boolean, timestamptz, bigint, integer) TO postroom_application;

-- The page of a record shows which webhooks its events were sent to.
CREATE INDEX events_of_records ON events (organization_id, entity_id) WHERE entity_type = 'record';
