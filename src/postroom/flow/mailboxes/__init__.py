"""Mailboxes: from the login at the provider to the disconnect.

    connect          a login, or an application's own credential, becomes a mailbox
    connect_request  what a person or a command asks to connect
    login_checks     the checks of a completed login, and the refusals that a person sees
    fixed_token      a token source with one given token
    invitations      links with which a person who is not a member connects one mailbox
    tokens           access tokens, refreshed by one process for all
    subscribe        the push subscription: create, renew, recreate
    mailbox_health   record that a provider denies access to a mailbox
    lifecycle        pause, resume, change the content policy, disconnect

The health of a mailbox (`MailboxHealth`):

                       ┌── subscription lost or silent ──▶ subscription_expired ── recreated ──┐
    connect ──▶ active ┼── provider denies access ───────▶ provider_error ──── retry succeeds ─┼──▶ active
                       └── grant lost ───────────────────▶ token_refresh_failed ── reconnect ──┘

Only a reconnect ends `token_refresh_failed`; until then neither syncs nor renewals run. In the other two
states syncs go on. Paused and disconnected are times on the row, independent of the health.
"""
