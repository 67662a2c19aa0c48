-- The names by which suppliers address an organization. Without any, the addressee of a document is not checked.
ALTER TABLE organizations ADD COLUMN addressee_names text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN organizations.addressee_names IS 'Names by which suppliers address the organization. Empty: addressees are not checked.';
