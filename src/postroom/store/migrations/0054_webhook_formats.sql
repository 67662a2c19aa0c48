-- The form in which a webhook receives events. Chosen when it is added: pending deliveries keep their bodies.
ALTER TABLE webhooks ADD COLUMN format text NOT NULL DEFAULT 'standard'
    CHECK (format IN ('standard', 'cloudevents'));
COMMENT ON COLUMN webhooks.format IS 'Form of the body: Standard Webhooks or CloudEvents 1.0. Both are signed alike.';
