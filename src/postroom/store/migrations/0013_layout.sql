-- Documents that look alike: what a person corrects in one is known in the next.
ALTER TABLE extractions ADD COLUMN layout text;
