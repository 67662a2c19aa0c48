-- A correction teaches for the supplier whose document it was, never for a sender: one sender forwards, scans or uploads
-- the papers of many.
ALTER TABLE corrections ADD COLUMN party text;   -- such as vat_id=de123456789; by another field than the corrected one
DROP INDEX corrections_by_sender;
CREATE INDEX corrections_by_party ON corrections (organization_id, party);
