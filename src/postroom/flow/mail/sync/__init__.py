"""The work `sync`: mirror a mailbox, every message once, whatever the provider repeats or reorders.

A page is a transaction: fetch it, store its bytes durably, then commit its rows together with the cursor that
follows it. A crash before the commit repeats the page; after it, the sync continues. Reading order:

    sync_step        one step: live changes, retries, a slice of the listings, the finish
    sync_run         the state of a run, shared by all modules below
    folder_tree      the folders, and the scopes that report their changes
    cursor_planning  the cursors that a new or expired scope needs
    live_changes     the hints of pushes, then the change feeds
    listing          backfill, full resync and its settling, refill
    isolation        messages that may crash their worker: handled alone, then parked
    page_fetch       what a page needs before its commit: lookups, messages, bytes
    message_state    what an observation changes, and the events that follow (pure)
    content_filter   what the content policy allows to be stored (pure)
    page_rows        its messages and events as rows of the tables (pure)
    page_commit      the transaction
    sync_requests    what a person can request: a sync now, a full one, a longer backfill

Each scope (a folder at Graph, the whole mailbox at Gmail) is in one of these states, in the table `cursors`:

    new ──cursor──▶ backfill and live ──last page──▶ live ◀──────────────────┐
     │    for now                                     │ cursor expired       │ all settled
     └─(Graph: no such cursor)─▶ backfill ──last page─┤                      │
            (hints, recent mail), then settle         ▼                      │
                                   resync: a full listing ──last page──▶ resync: settle what it did not list
    gone (the folder was deleted) ──────────────────────────────────────▶ settle, then drop the scope

A message:  unknown ──fetch──▶ stored ⇄ moved, labels, flags ──▶ deleted (marked) ──▶ stored, if restored
                │                 └──(moved to a folder that is not mirrored)──▶ left ──▶ stored, if back
                └──(its fetch fails)──▶ failure ──retry with backoff──▶ stored, or waits for a person
                                           └──(its feed or a complete listing: gone)──▶ resolved
                └──(workers crash over it)──▶ alone ──(again)──▶ parked: waits for a person

A 404 is such a failure, too: a provider may name a message before it can be read. The failure is committed
with the cursor that passes the message, and names the scope that lists it. Settling reads the change feed
first, and then looks up only what neither the feed nor the listing named.
"""

from postroom.flow.mail.sync.sync_run import SyncContext
from postroom.flow.mail.sync.sync_step import run

__all__ = ["SyncContext", "run"]
