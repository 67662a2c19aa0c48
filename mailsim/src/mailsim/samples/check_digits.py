"""IBANs, ISINs and VAT IDs with check digits: make, draw, check and print them.

Their bank and issuer codes are not assigned.
"""

from mailsim.samples.seeded_random import SeededRandom


def _to_digits(text: str) -> str:
    return "".join(str(int(character, 36)) for character in text)


def make_iban(country: str, account: str) -> str:
    rest = int(_to_digits(f"{account}{country}00")) % 97
    return f"{country}{98 - rest:02d}{account}"


def is_valid_iban(value: str) -> bool:
    return int(_to_digits(value[4:] + value[:4])) % 97 == 1


def draw_iban(country: str, rng: SeededRandom) -> str:
    """Draw an IBAN of the country's length, at a bank that does not exist."""
    match country:
        case "DE":
            return make_iban("DE", f"9{rng.digits(17)}")
        case "FR":
            head = f"9{rng.digits(4)}{rng.digits(5)}{rng.digits(11)}"
            return make_iban("FR", f"{head}{97 - int(head) * 100 % 97:02d}")
        case "GB":
            return make_iban("GB", f"TEST{rng.digits(14)}")
        case "IE":
            return make_iban("IE", f"TEST{rng.digits(14)}")
        case "CH":
            return make_iban("CH", f"9{rng.digits(4)}{rng.digits(12)}")
        case _:
            raise ValueError(f"IBAN format of country {country} is not implemented")


def group_digits(value: str) -> str:
    """Split a number into groups of four characters, as printed on documents."""
    return " ".join(value[start : start + 4] for start in range(0, len(value), 4))


def compute_luhn_digit(digits: str) -> int:
    """Compute the Luhn check digit of a number."""
    total = 0
    for position, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if position % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return -total % 10


def make_isin(country: str, number: str) -> str:
    """Append the check digit to a country code and a number of nine characters."""
    return f"{country}{number}{compute_luhn_digit(_to_digits(country + number))}"


def is_valid_isin(value: str) -> bool:
    return len(value) == 12 and value == make_isin(value[:2], value[2:11])


def draw_vat_id(country: str, rng: SeededRandom) -> str:
    """Draw a VAT ID in the country's format, with valid check digits where the algorithm is public."""
    match country:
        case "DE":
            digits = f"9{rng.digits(7)}"
            return f"DE{digits}{_compute_iso7064_digit(digits)}"
        case "FR":
            siren = f"9{rng.digits(7)}"
            siren += str(compute_luhn_digit(siren))
            return f"FR{(12 + 3 * (int(siren) % 97)) % 97:02d}{siren}"
        case "GB":
            digits = f"9{rng.digits(6)}"
            weighted = sum(int(digit) * weight for digit, weight in zip(digits, range(8, 1, -1), strict=True))
            return f"GB{digits}{97 - weighted % 97:02d}"
        case "IE":
            digits = rng.digits(7)
            weighted = sum(int(digit) * weight for digit, weight in zip(digits, range(8, 1, -1), strict=True))
            return f"IE{digits}{'WABCDEFGHIJKLMNOPQRSTUV'[weighted % 23]}"
        case "CH":
            return f"CHE{rng.digits(9)}"
        case _:
            raise ValueError(f"VAT ID format of country {country} is not implemented")


def _compute_iso7064_digit(digits: str) -> int:
    """Compute the check digit of ISO 7064 MOD 11,10."""
    product = 10
    for digit in digits:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10
