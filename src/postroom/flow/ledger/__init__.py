"""Ledger: sealing and verification of the append-only audit trail.

    seal   number the feed, seal the ledger, verify it

An entry:  appended, unsealed ── seal ──▶ position, digest in a signed seal ──▶ verifiable
                                              └── purge ──▶ personal values gone, digest stays

Each seal covers a batch of entries and the digest of the previous seal, so seals form a chain.
"""
