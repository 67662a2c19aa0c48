-- PostgreSQL's parser of words takes quadratic time for long runs without spaces that look like addresses, URLs or
-- paths, and for "<!--": minutes for 100,000 characters, which a stranger may send. So every text that it parses is
-- this one: the beginning, without tags, and with a space after every 100 characters of a longer run.
CREATE FUNCTION searchable_text(words text, at_most integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN regexp_replace(translate(left(coalesce(words, ''), at_most), '<', ' '), '\S{100}', '\& ', 'g');
REVOKE ALL ON FUNCTION searchable_text(text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION searchable_text(text, integer) TO postroom_application;

CREATE OR REPLACE FUNCTION message_search(subject text, people text, body text) RETURNS tsvector
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN setweight(to_tsvector('simple', searchable_text(subject, 2000)), 'A')
        || setweight(to_tsvector('simple', searchable_text(people, 10000)), 'B')
        || to_tsvector('simple', searchable_text(body, 100000));

CREATE OR REPLACE FUNCTION file_name_search(names text) RETURNS tsvector
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN setweight(to_tsvector('simple', concat_ws(' ', searchable_text(names, 10000),
        searchable_text(regexp_replace(left(names, 10000), '[]._+(){}#,;&=~@![-]+', ' ', 'g'), 10000))), 'C');

-- A minus excludes the word behind it. Others are left out, since PostgreSQL fails on more than 30 that follow each other.
CREATE OR REPLACE FUNCTION prefix_query(words text) RETURNS tsquery LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN regexp_replace(
        regexp_replace(websearch_to_tsquery('simple', regexp_replace(searchable_text(words, 2000),
            '-+(?![[:alnum:]"])', ' ', 'g'))::text, '''(([^'']|'''')+)''', '''\1'':*', 'g'),
        '''([^'']{1,2})'':\*', '''\1''', 'g')::tsquery;

-- The expression of a generated column cannot be changed before PostgreSQL 17.
ALTER TABLE transcripts ALTER COLUMN search DROP EXPRESSION;
CREATE FUNCTION index_transcript() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.search := to_tsvector('simple', postroom.searchable_text(NEW.text, 100000));
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION index_transcript() FROM PUBLIC;
CREATE TRIGGER index_transcript BEFORE INSERT OR UPDATE OF text ON transcripts
    FOR EACH ROW EXECUTE FUNCTION index_transcript();
COMMENT ON COLUMN transcripts.search IS 'The words of the text. A trigger sets it.';
