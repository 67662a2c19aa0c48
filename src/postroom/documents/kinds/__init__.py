"""The kinds of documents that ship, one file each."""
