"""Postroom: Gmail and Microsoft 365 mailboxes, every message exactly once, and the proof of it."""

__version__ = "0.1.0"
