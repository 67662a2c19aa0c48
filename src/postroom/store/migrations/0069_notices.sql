-- Notices: messages to people about conditions that need them, by e-mail, Slack or Microsoft Teams.
CREATE TABLE notice_destinations (
    organization_id uuid             NOT NULL REFERENCES organizations,
    id              uuid             NOT NULL DEFAULT gen_random_uuid(),
    name            text             NOT NULL CHECK (name <> ''),
    medium          text             NOT NULL CHECK (medium IN ('email', 'slack', 'teams')),
    addresses       text[]           NOT NULL DEFAULT '{}',
    key_id          text,
    sealed_url      bytea,
    kinds           text[]           NOT NULL DEFAULT '{}',
    review_hours    double precision NOT NULL DEFAULT 24 CHECK (review_hours > 0),
    quiet_from      time,
    quiet_until     time,
    time_zone       text             NOT NULL DEFAULT 'UTC',
    notice_id       uuid,
    claims          integer          NOT NULL DEFAULT 0,
    attempts        integer          NOT NULL DEFAULT 0,
    retry_at        timestamptz,
    failing_since   timestamptz,
    last_error      text,
    last_sent_at    timestamptz,
    created_at      timestamptz      NOT NULL DEFAULT postroom_now(),
    PRIMARY KEY (organization_id, id),
    CHECK ((quiet_from IS NULL) = (quiet_until IS NULL)),
    CHECK ((key_id IS NULL) = (sealed_url IS NULL)),
    CHECK ((medium = 'email') = (sealed_url IS NULL))
);
CALL belongs_to_organization('notice_destinations');
COMMENT ON TABLE notice_destinations IS 'Where notices of an organization are sent, which ones, and when not.';
COMMENT ON COLUMN notice_destinations.addresses IS 'Recipients of e-mail.';
COMMENT ON COLUMN notice_destinations.sealed_url IS 'URL of the incoming webhook of Slack or Teams. Anyone who knows it can post, so it is a secret.';
COMMENT ON COLUMN notice_destinations.kinds IS 'Kinds of conditions to announce. Empty: all.';
COMMENT ON COLUMN notice_destinations.review_hours IS 'How long a document may need review before the review queue is a condition.';
COMMENT ON COLUMN notice_destinations.quiet_from IS 'Nothing is sent from then until quiet_until, in the time zone. Empty: no quiet hours.';
COMMENT ON COLUMN notice_destinations.notice_id IS 'The notice that is being sent, committed before it is sent. The same content has the same id.';
COMMENT ON COLUMN notice_destinations.claims IS 'How often notice_id was about to be sent without a known result.';
COMMENT ON COLUMN notice_destinations.attempts IS 'Failed attempts in a row; they determine retry_at.';

-- What was announced to a destination, or will be.
CREATE TABLE notice_conditions (
    organization_id uuid        NOT NULL,
    destination_id  uuid        NOT NULL,
    kind            text        NOT NULL,
    subject         text        NOT NULL,
    since           timestamptz NOT NULL,
    sent_at         timestamptz,
    resolved_at     timestamptz,
    PRIMARY KEY (organization_id, destination_id, kind, subject),
    FOREIGN KEY (organization_id, destination_id) REFERENCES notice_destinations ON DELETE CASCADE
);
CALL belongs_to_organization('notice_conditions');
COMMENT ON TABLE notice_conditions IS 'A condition that a destination was or will be notified about. Deleted once its end was announced.';
COMMENT ON COLUMN notice_conditions.subject IS 'The id of the mailbox or webhook; empty for the review queue.';
COMMENT ON COLUMN notice_conditions.sent_at IS 'When it was last announced. Empty: not yet.';
