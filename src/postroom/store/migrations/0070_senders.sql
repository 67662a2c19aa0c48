-- What a sender's mail stores is summed while its messages arrive.
CREATE INDEX messages_by_sender ON messages (organization_id, from_domain, from_address);
