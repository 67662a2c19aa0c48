"""The numbers that documents carry, apart from them because a letter's subject needs nothing else."""

from mailsim.samples.seeded_random import SeededRandom


def invoice_number(seed: int, year: int) -> str:
    """In the style of its supplier."""
    dice = SeededRandom(seed, 27)
    running = dice.between(1, 98_999)
    styles = (
        f"{year}-{running:05d}",
        f"RE{running:06d}",
        f"INV-{year % 100}{running:05d}",
        f"F{year}/{running:04d}",
    )
    return dice.pick((*styles, f"{running + 100_000}"))


def paper_number(seed: int) -> str:
    return str(SeededRandom(seed, 42).between(10_000, 99_999))


def note_number(seed: int) -> str:
    """In the style of its house."""
    dice = SeededRandom(seed, 29)
    nine, seven, eight = dice.digits(9), dice.digits(7), dice.digits(8)
    return dice.pick((nine, f"WP-{seven}", f"CN{eight}", f"{nine[:4]}/{seven[:6]}"))
