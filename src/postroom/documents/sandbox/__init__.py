"""Child processes with limits, in which untrusted files are read, rendered and sanitized."""
