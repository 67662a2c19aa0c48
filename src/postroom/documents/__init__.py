"""Turns the bytes of a document into typed values: text, kind, fields, checks, matches with records.

- `files`: what a file is, its text and page images, the files inside containers.
- `sandbox`: the child processes in which untrusted files are read.
- `kinds`: the document kinds and the fields they declare.
- `fields`: the values of those fields, read from text, e-invoice XML or by a language model.

No database and no I/O, except for child processes, the pipelines file and a configured language model.
"""
