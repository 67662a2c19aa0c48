"""Ledger: sealing and verification of the append-only audit trail.

    seal           number the feed, seal the ledger, keep its head outside the database
    verification   verify digests, MACs, positions, seals, purges and heads

An entry:  appended with a MAC ── seal ──▶ position, digest and MAC in a signed seal ──▶ verifiable
                                               └── purge ──▶ personal values gone, digest stays
           no valid MAC: never sealed, a fault

Each seal covers a batch of entries and the digest of the previous seal, so seals form a chain.
"""
