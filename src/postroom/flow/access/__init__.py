"""Access: who may use this Postroom.

    members     the people of an organization: add, change role or password, remove
    passwords   hash and verify passwords (Argon2id)
    sign_in     a link, a password or an OpenID identity becomes a session
    api_keys    keys for programs: create, revoke
    organization_names   the names by which suppliers address the organization

A session:  sign-in link (once) ─┐
            password ────────────┼──▶ active ──┬── sign-out, new password, member removed ──▶ ended
            OpenID identity ─────┘             └── too old ──▶ expired

A member's password, per source:  open ──▶ wrong too often ──▶ locked for a while ──▶ open

Every change is recorded in the ledger.
"""
