"""All SQL of Postroom. Functions take a connection; the caller owns the transaction."""
