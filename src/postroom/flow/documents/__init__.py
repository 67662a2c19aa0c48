"""Documents: from an attachment or a file to a confirmed record in the archive.

    screen         which messages and attachments a pipeline accepts (pure)
    intake         attachments become documents, in the transaction that stores the message
    unpack         zip files and forwarded messages are opened and their files taken in
    upload         files that a person uploads
    watch          files that appear in a watched folder or bucket
    sqs_dispatch   announce due documents to SQS and claim what it delivers
    process        read a document and commit the result
    extraction     from the bytes of a document to typed fields
    unlock         open an encrypted PDF with the password that a person gives
    split          make documents of the parts of a PDF that holds several
    controls       check values against the receipt, earlier records and the organization's names
    route          decide: record, review or skip
    review         what a person decides
    bulk_decisions decide on several documents, each by itself
    collaboration  comments on documents, and who is to review one
    value_checks   validate and check the values that a person enters
    record_changes reopen, correct, void, merge and split records
    record_publishing  store a version of a record and publish it
    supplier_trust  lift reviews of values that people confirmed before, for the same supplier and layout
    orders         purchases and trades for which documents are expected
    order_files    read orders from a CSV file or from cells of a spreadsheet
    order_links    link records with orders that a person chooses, or that arrive later
    archive        write a completed document once and read it back
    shared_state   share the state of messages with another scheduler

The state of a document (`DocumentState`):

    intake ──▶ queued ──▶ processing ──┬── confident ─────────▶ completed ──▶ archived (if configured)
                 ▲            │        ├── in doubt ──────────▶ needs_review ──┬── confirm ──▶ completed
                 │            │        │                                       └── reject ───▶ skipped
                 │            │        ├── needs a password ──▶ needs_review ──── unlock ──▶ queued
                 │            │        ├── several invoices ──▶ needs_review ──── split ───▶ parts queued
                 │            │        ├── no pipeline fits ──▶ skipped
                 │            │        └── unreadable ────────▶ failed
                 ├── retry ───┘
                 └── read again, requested by a person ── needs_review | skipped | failed

The state of a record (`RecordState`). Every arrow is a version with a reason, a ledger entry and an event:

                        correct, link to an order
                               ┌─────┐
                               ▼     │        reopen
    route, review ─────────▶ confirmed ─────────────────▶ reopened: its first document needs review
                              ▲  │  ▲ ◀───── confirm ─────  │    ▲
                        split │  │  └ merge another into it  │    │ reopen
                              │  │ merge         reject, void│    │
                              │  ▼                           ▼    │
                             merged        confirmed ──▶ voided ──┘
                     (its documents moved)   void    (its documents are skipped)

A split of a document gives it a new confirmed record. Only confirmed records are learned from:
known IBANs, usual amounts, corrections. A copy of a merged record is a duplicate of the record it was
merged into; a copy of a voided record is not a duplicate.
"""
