"""The only SQL. Functions take a connection; the caller owns the transaction."""
