"""All SQL of Postroom, one module per table or topic, and the embedded server. No provider calls.

Most functions take a connection, and the caller owns the transaction.
"""
