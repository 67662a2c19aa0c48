"""One file: its type, text, words and page images, the files inside it, and sanitized HTML.

Mostly runs in the sandbox.
"""
