-- Searches take some_matching_messages and some_matching_documents.
DROP FUNCTION matching_messages(tsquery), matching_documents(tsquery);
