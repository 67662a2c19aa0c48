-- How a record is found again (D8): by each way in which its thing is told, such as a supplier's VAT id or name with the
-- number of the invoice. Several records may have the same mark: what disagrees with the first is a person's decision.
CREATE TABLE record_marks (
    organization_id uuid  NOT NULL,
    pipeline        text  NOT NULL,
    mark            bytea NOT NULL CHECK (octet_length(mark) = 32),
    record_id       uuid  NOT NULL,
    PRIMARY KEY (organization_id, pipeline, mark, record_id),
    FOREIGN KEY (organization_id, record_id) REFERENCES records ON DELETE CASCADE
);
CREATE INDEX record_marks_by_record ON record_marks (record_id);
CALL belongs_to_organization('record_marks');
