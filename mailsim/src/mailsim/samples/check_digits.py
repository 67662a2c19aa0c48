"""Numbers with check digits: IBAN, ISIN, VAT identifiers. Bank and issuer codes are ones that nobody has."""

from mailsim.samples.seeded_random import SeededRandom


def _letters_as_digits(text: str) -> str:
    return "".join(str(int(character, 36)) for character in text)


def iban(country: str, account: str) -> str:
    rest = int(_letters_as_digits(f"{account}{country}00")) % 97
    return f"{country}{98 - rest:02d}{account}"


def iban_is_valid(value: str) -> bool:
    return int(_letters_as_digits(value[4:] + value[:4])) % 97 == 1


def bank_account(country: str, dice: SeededRandom) -> str:
    """An IBAN of the country's length, at a bank that does not exist."""
    match country:
        case "DE":
            return iban("DE", f"9{dice.digits(17)}")
        case "FR":
            head = f"9{dice.digits(4)}{dice.digits(5)}{dice.digits(11)}"
            return iban("FR", f"{head}{97 - int(head) * 100 % 97:02d}")
        case "GB":
            return iban("GB", f"TEST{dice.digits(14)}")
        case "IE":
            return iban("IE", f"TEST{dice.digits(14)}")
        case "CH":
            return iban("CH", f"9{dice.digits(4)}{dice.digits(12)}")
        case _:
            raise ValueError(f"no bank accounts are known for {country}")


def spaced(value: str) -> str:
    """In groups of four, as people print it."""
    return " ".join(value[start : start + 4] for start in range(0, len(value), 4))


def luhn_digit(digits: str) -> int:
    """The digit that completes a number under the Luhn rule."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if place % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return -total % 10


def isin(country: str, number: str) -> str:
    """`number` has nine characters."""
    return f"{country}{number}{luhn_digit(_letters_as_digits(country + number))}"


def isin_is_valid(value: str) -> bool:
    return len(value) == 12 and value == isin(value[:2], value[2:11])


def vat_id(country: str, dice: SeededRandom) -> str:
    """A VAT identifier in the country's form, its check digits right where the rule is public."""
    match country:
        case "DE":
            digits = f"9{dice.digits(7)}"
            return f"DE{digits}{_iso7064(digits)}"
        case "FR":
            siren = f"9{dice.digits(7)}"
            siren += str(luhn_digit(siren))
            return f"FR{(12 + 3 * (int(siren) % 97)) % 97:02d}{siren}"
        case "GB":
            digits = f"9{dice.digits(6)}"
            weighted = sum(int(digit) * weight for digit, weight in zip(digits, range(8, 1, -1), strict=True))
            return f"GB{digits}{97 - weighted % 97:02d}"
        case "IE":
            digits = dice.digits(7)
            weighted = sum(int(digit) * weight for digit, weight in zip(digits, range(8, 1, -1), strict=True))
            return f"IE{digits}{'WABCDEFGHIJKLMNOPQRSTUV'[weighted % 23]}"
        case "CH":
            return f"CHE{dice.digits(9)}"
        case _:
            raise ValueError(f"no VAT identifiers are known for {country}")


def _iso7064(digits: str) -> int:
    """The check digit of ISO 7064 MOD 11,10."""
    product = 10
    for digit in digits:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10
