"""The adapters of Gmail and Microsoft 365 for `ports.Provider`, with the same file names in both folders."""
