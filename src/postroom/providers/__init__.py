"""Gmail and Microsoft 365 behind one protocol (`ports.Provider`). The same file names in both folders."""
