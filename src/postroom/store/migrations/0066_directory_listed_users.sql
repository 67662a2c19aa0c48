-- How many users the last listing of a directory returned, selected or not.
ALTER TABLE directories ADD COLUMN listed_users integer;
