"""Sync: a mailbox is mirrored, every message once, whatever the provider repeats, reorders or forgets.

A page is a transaction: fetch, then bytes made safe, then one commit with the cursor that passes over it. A
crash before the commit repeats the page; after it, the sync goes on. Reading order:

    step      one run: live changes, what failed alone, a slice of the listings, how it ended
    tree      the folders, and which feeds tell of them
    live      pushes' hints, then the feeds of changes
    listing   backfill, full resync and what it settles, refill
    gather    what a page asks for: looks, fetches, bytes made safe
    merge     what an observation changes, and the events of it (pure)
    content   what the content policy lets be kept (pure)
    commit    the transaction

Each scope (a folder at Graph, the whole mailbox at Gmail) is in one of these states, in the table `cursors`:

    new ──pin──▶ backfill and live ──last page──▶ live ◀─────────────────────┐
     │                                             │ cursor expired          │ all settled
     └─(no pin)─▶ backfill ──last page: its cursor─┤                         │
                  (hints, recent), and settle      ▼                         │
                                   resync: a whole listing ──last page──▶ resync: settle what it did not show
    gone (the folder was deleted) ──────────────────────────────────────▶ settle, and the scope is no more

A message:  unknown ──fetch──▶ stored ⇄ moved, labels, flags ──▶ deleted (a mark) ──▶ stored, if it comes back
                └──(fails alone)──▶ failure ──backoff──▶ stored, or waits for a person
"""

from postroom.flow.mail.sync.content_filter import AttachmentFilter, accepts_attachment
from postroom.flow.mail.sync.sync_run import SyncContext
from postroom.flow.mail.sync.sync_step import run

__all__ = ["AttachmentFilter", "SyncContext", "accepts_attachment", "run"]
