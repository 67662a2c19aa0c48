"""Document kinds: how one is declared, the built-in ones, and the registry of all installed ones."""
