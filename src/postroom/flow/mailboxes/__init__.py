"""Mailboxes: from the login at the provider to the disconnect.

    connect          a login, or an application's own credential, becomes a mailbox
    connect_request  what a person or a command asks to connect
    login_checks     the checks of a completed login, and the refusals that a person sees
    fixed_token      a token source with one given token
    directories      the users of a Workspace or tenant: add, preview, remove
    directory_input  validates what a person enters to add a directory
    app_credential_input  validates the credential of an application
    directory_plan   who joins and leaves, and whether a listing may be applied
    directory_sync   the work that lists a directory (its states are drawn there)
    directory_user   the work that connects one user, or lets one leave
    invitations      links with which a person who is not a member connects one mailbox
    tokens           access tokens, refreshed by one process for all
    subscribe        the push subscription: create, renew, recreate (its context: subscribe_context)
    orphan_subscriptions  the daily work that removes subscriptions that no row knows
    mailbox_health   from an error to the health of a mailbox: cause, meaning, remedy
    push_silence     notice new mail that no push announced
    push_proof       sweep less often while pushes are proven to arrive
    lifecycle        pause, resume, change the content policy, disconnect

The health of a mailbox (`MailboxHealth`):

                       ┌── subscription lost or silent ──▶ subscription_expired ── recreated ──┐
                       ├── two failed attempts, denied ──▶ provider_error ─── a sync works ────┤
    connect ──▶ active ┼── an operator must act ─────────▶ operator_error ─── a sync works ────┼──▶ active
                       └── grant lost ───────────────────▶ token_refresh_failed ── reconnect ──┘

Each has a cause (`HealthCause`). Only a reconnect ends `token_refresh_failed`; until then neither syncs nor
renewals run. In the other states both continue. Paused and disconnected are times on the row, independent of
the health.
"""
