"""Storage: reading and upkeep of stored bytes, and upkeep of sealed secrets.

    blob_location       require that all processes use the same blob store
    blob_reading        read a whole blob into memory
    blob_gc             remove blobs that nothing refers to
    blob_verification   check every blob against its digest
    storage_limit       limit the bytes that an organization stores
    sender_quota        limit the storage that the attachments of one sender use
    key_rotation        seal secrets again with the current vault key
    database_recovery   sync and audit every mailbox after the database may have lost commits

A blob:  put ──▶ stored, referenced ── last reference removed, grace over ──▶ marked ──┬──▶ removed
          └── never committed ──▶ object without a row ── grace over ────────────────▶─┘
                                                            marked, but put again ──▶ spared
"""
