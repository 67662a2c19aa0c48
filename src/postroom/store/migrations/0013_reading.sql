-- Documents that look alike: what a person corrects in one is known in the next.
ALTER TABLE extractions ADD COLUMN layout text;

-- What the first bytes of a blob say it is; empty where nobody looked.
ALTER TABLE blobs ADD COLUMN detected text;
