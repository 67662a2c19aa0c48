"""Mail: how it arrives, how it is mirrored and checked, and how it is removed.

    push              authenticate pushes; enqueue a sync for each notification
    pull              pull notifications where no public URL exists, and handle them like pushes
    push_rejections   count rejected notifications and record them in the ledger
    sync/             mirror a mailbox, page by page (its states are drawn there)
    audit             compare a mailbox at its provider with the store
    failure_retry     retry what a sync could not store, when a person asks for it
    policy            apply a changed content policy to stored mail
    file_name_index   make attachments stored before an upgrade searchable by name
    retention         remove rows whose retention has passed
    purge             remove the mail that one person sent
    address_pattern   the forms in which a purged address may be stored

A notification:  received ── secret matches ──▶ hint + work `sync`, committed ──▶ 2xx
                     ├── wrong secret, unknown subscription ──▶ counted ──▶ ledger entry
                     └── not committed in time ──▶ 503: the provider sends it again

A stored message:  stored ──▶ deleted (marked) ──┬──▶ removed: retention, purge, or `purge` of its mailbox
                      ├──▶ left the scope ───────┤
                      └──────────────────────────┘
"""
