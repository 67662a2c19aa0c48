-- A PDF that holds several documents is split. Each part is a document that names the original and its pages.
ALTER TABLE documents ADD COLUMN part_of uuid;
ALTER TABLE documents ADD COLUMN part_pages text;
ALTER TABLE documents ADD FOREIGN KEY (organization_id, part_of) REFERENCES documents ON DELETE SET NULL (part_of);
CREATE UNIQUE INDEX documents_by_original ON documents (organization_id, part_of, part_pages)
    WHERE part_of IS NOT NULL;
COMMENT ON COLUMN documents.part_of IS 'The document of which this is a part. The original is completed without a record.';
COMMENT ON COLUMN documents.part_pages IS 'The pages of the original that it consists of, such as 1-2.';
