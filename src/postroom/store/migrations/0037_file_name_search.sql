-- The names of attachments are searched with their message.

-- Whole and in words: PostgreSQL takes `invoice_march.pdf` for one word. Weight C is theirs alone.
CREATE FUNCTION file_name_search(names text) RETURNS tsvector
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN setweight(to_tsvector('simple', concat_ws(' ', left(names, 10000),
        regexp_replace(left(names, 10000), '[]._+(){}#,;&=~@![-]+', ' ', 'g'))), 'C');
REVOKE ALL ON FUNCTION file_name_search(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION file_name_search(text) TO postroom_application;

CREATE FUNCTION message_search(subject text, people text, files text, body text) RETURNS tsvector
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN message_search(subject, people, body) || file_name_search(files);
REVOKE ALL ON FUNCTION message_search(text, text, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION message_search(text, text, text, text) TO postroom_application;

-- Workers add the names of stored attachments in small batches: an update of all rows here would lock them for long.
INSERT INTO work (organization_id, kind, subject, due_at)
SELECT id, 'index_file_names', id::text, postroom_now() FROM organizations
WHERE EXISTS (SELECT FROM attachments WHERE organization_id = organizations.id)
ON CONFLICT DO NOTHING;
