"""Numbers of invoices, lookalikes and contract notes.

Separate from the documents, because a message's subject needs only the number.
"""

from mailsim.samples.seeded_random import SeededRandom


def make_invoice_number(seed: int, year: int) -> str:
    """Make an invoice number in one of five styles."""
    rng = SeededRandom(seed, 27)
    running = rng.between(1, 98_999)
    styles = (
        f"{year}-{running:05d}",
        f"RE{running:06d}",
        f"INV-{year % 100}{running:05d}",
        f"F{year}/{running:04d}",
    )
    return rng.pick((*styles, f"{running + 100_000}"))


def make_lookalike_number(seed: int) -> str:
    return str(SeededRandom(seed, 42).between(10_000, 99_999))


def make_contract_note_number(seed: int) -> str:
    """Make a contract note number in one of four styles."""
    rng = SeededRandom(seed, 29)
    nine, seven, eight = rng.digits(9), rng.digits(7), rng.digits(8)
    return rng.pick((nine, f"WP-{seven}", f"CN{eight}", f"{nine[:4]}/{seven[:6]}"))
