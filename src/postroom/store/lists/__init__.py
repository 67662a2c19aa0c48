"""Lists that people filter, sort and export: one definition each, read by `list_reading`.

The pages, the exports and the commands show the same columns of the same rows.
"""
