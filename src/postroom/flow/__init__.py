"""The steps of Postroom, grouped by domain. Steps open transactions; `store` holds the SQL.

    mailboxes   connect a mailbox, keep its tokens and its subscription alive, disconnect it
    mail        receive pushes, mirror mail, audit it, apply content policy and retention, purge
    documents   turn attachments and files into documents, and documents into records
    outbound    deliver events to webhooks
    access      members, sign-in, sessions and API keys
    ledger      number the feed, seal and verify the ledger
    storage     collect unreferenced blobs, verify blobs, rotate keys

    provider ──push──▶ mail/push ─▶ work: sync ─▶ mail/sync ─▶ documents/intake ─▶ work: process_document
                                                                                            │
         webhooks ◀── outbound/deliver ◀── ledger/seal ◀── events ◀── documents/route ◀─────┘

A module that does the work of one `WorkKind` has a function `run`, which the worker calls with a lease. If
that work must always exist, a `keep_scheduled` (its own, or that of `storage.blob_gc` for daily work) runs
for the life of the process and recreates it. Pushes, uploads and people only make work due; the step that
runs it commits through `work.fenced_transaction`, under its lease.
"""
