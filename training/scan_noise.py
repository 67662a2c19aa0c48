"""Adds noise to generated documents: misread characters and distracting lines, as in real scans."""

from dataclasses import replace
from datetime import date, timedelta
from random import Random
from typing import Final

from training.generated_documents import GeneratedDocument

# Characters that OCR and bad fonts confuse. Digits suffer ten times less than others.
_CONFUSED_CHARACTERS: Final = {
    "l": "1I",
    "I": "l1",
    "O": "0",
    "o": "c0",
    "S": "5",
    "B": "8",
    "e": "c",
    "c": "e",
    "ä": "a",
    "ö": "o",
    "ü": "u",
    "é": "e",
    "n": "r",
    "t": "f",
    "g": "q",
}
_CONFUSED_DIGITS: Final = {"0": "8O", "1": "7l", "3": "8", "5": "6S", "6": "5", "8": "3B", "9": "g"}
_DISTRACTIONS: Final = (
    "Generiert um: {day} 07:23:37",
    "Printed on {day} 11:02:45",
    "Berichtszeitraum {day} - {day}",
    "Ihr Auftrag vom {day}",
    "Bemessungsgrundlage {amount} EUR",
    "Steuerlicher Anschaffungswert {amount} EUR",
    "Neuer Saldo zu Ihren Gunsten {amount} EUR",
    "Limit {amount}",
    "Referenz {number}",
    "Tel. 0441 {number}",
    "Account balance {amount}",
    "Formular {number} Version {day}",
    "Solde {amount} EUR",
    "Vorgang {number} / {number}",
)


def add_noise(document: GeneratedDocument, seed: int, *, misread: float) -> GeneratedDocument:
    """Return the document with this share of misread characters and with distracting lines."""
    dice = Random(seed)
    lines = document.text.split("\n")
    for _ in range(dice.randint(0, 4)):
        lines.insert(dice.randint(1, len(lines)), _distraction(dice))
    text = "".join(_seen(sign, dice, misread) for sign in "\n".join(lines))
    return replace(document, text=text)


def _distraction(dice: Random) -> str:
    day = date(2016, 1, 1) + timedelta(days=dice.randrange(3600))
    amount = f"{dice.randint(100, 900_000) / 100:.2f}"
    return dice.choice(_DISTRACTIONS).format(
        day=day.strftime(dice.choice(["%d.%m.%Y", "%d/%m/%Y"])),
        amount=amount if dice.random() < 0.5 else amount.replace(".", ","),
        number=dice.randint(10_000, 99_999_999),
    )


def _seen(sign: str, dice: Random, misread: float) -> str:
    like, chance = (_CONFUSED_DIGITS, misread / 10) if sign.isdigit() else (_CONFUSED_CHARACTERS, misread)
    return dice.choice(like[sign]) if sign in like and dice.random() < chance else sign
