"""One file: its type, text, words and page images, and the files inside it.

Mostly runs in the sandbox.
"""
