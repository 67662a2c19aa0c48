-- A content is one document, whichever pipelines accept it: it is classified once and belongs to the one that fits best.
ALTER TABLE documents ADD COLUMN pipelines text[] NOT NULL DEFAULT '{}';
ALTER TABLE documents ADD COLUMN is_second_copy boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN documents.pipeline IS 'The pipeline that it belongs to. Until it is classified, the first that accepted it.';
COMMENT ON COLUMN documents.pipelines IS 'The pipelines that accepted its content. It is classified among their kinds.';
COMMENT ON COLUMN documents.is_second_copy IS 'An earlier version also completed this content in another pipeline. Both documents have a record, so both stay.';
COMMENT ON TABLE documents IS 'One content that pipelines accepted, however often it arrives.';

-- Earlier versions made one document in each pipeline. The one that came furthest stays and gets all arrivals. The others
-- have no record: they are removed. The ledger keeps what it says about them.
CREATE TEMPORARY TABLE ranked_documents ON COMMIT DROP AS
    SELECT organization_id, id, pipeline, state,
        first_value(id) OVER best AS kept_id, row_number() OVER best AS place
    FROM documents
    WINDOW best AS (
        PARTITION BY organization_id, sha256
        ORDER BY array_position(
            ARRAY['completed', 'needs_review', 'processing', 'queued', 'failed', 'skipped'], state
        ), created_at, id
    );
UPDATE documents SET is_second_copy = true
FROM ranked_documents AS ranked
WHERE ranked.id = documents.id AND ranked.place > 1 AND ranked.state = 'completed';
DELETE FROM ranked_documents WHERE place > 1 AND state = 'completed';
UPDATE documents SET pipelines = accepted.pipelines
FROM (SELECT kept_id, array_agg(pipeline ORDER BY place) AS pipelines FROM ranked_documents GROUP BY 1) AS accepted
WHERE accepted.kept_id = documents.id;
UPDATE documents SET pipelines = ARRAY[pipeline] WHERE is_second_copy;
DELETE FROM arrivals WHERE (organization_id, id) IN (
    SELECT organization_id, id FROM (
        SELECT arrivals.organization_id, arrivals.id, row_number() OVER (
            PARTITION BY kept_id, message_id, arrivals.part ORDER BY place, arrivals.id
        ) AS copy
        FROM arrivals JOIN ranked_documents AS ranked ON ranked.id = document_id WHERE message_id IS NOT NULL
    ) AS numbered
    WHERE copy > 1
);
UPDATE arrivals SET document_id = kept_id FROM ranked_documents AS ranked WHERE ranked.id = document_id AND place > 1;
DELETE FROM documents USING ranked_documents AS ranked WHERE ranked.id = documents.id AND place > 1;

ALTER TABLE documents DROP CONSTRAINT documents_organization_id_pipeline_sha256_key;
CREATE UNIQUE INDEX documents_content ON documents (organization_id, sha256) WHERE NOT is_second_copy;
