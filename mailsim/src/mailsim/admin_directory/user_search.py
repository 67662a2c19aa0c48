"""The `query` parameter of users.list: search clauses, all of which a user must match.

Syntax as in "Search for users" of the Directory API: `field=value`, `field:value` (contains a word),
`field:prefix*`, or a value alone. Values with spaces are in quotes.
"""

import re
from collections.abc import Callable
from typing import Any

from mailsim.gmail.errors import GmailError, GmailErrorBody

_CLAUSE = re.compile(
    r"""\s*(?:(?P<field>[\w.]+)(?P<operator>[=:]))?(?P<value>'[^']*'|"[^"]*"|[^\s'"=:<>()]+)(?=\s|\Z)"""
)
_TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "name": lambda user: user["name"]["fullName"],
    "givenName": lambda user: user["name"]["givenName"],
    "familyName": lambda user: user["name"]["familyName"],
    "email": lambda user: user["primaryEmail"],
    "orgUnitPath": lambda user: user["orgUnitPath"],
}
_FLAGS = {
    "isAdmin": "isAdmin",
    "isDelegatedAdmin": "isDelegatedAdmin",
    "isSuspended": "suspended",
    "isArchived": "archived",
}
# The fields by their operators. Those that are in neither table above have no value for any user here.
_OPERATORS = {
    "=:": {
        "name", "email", "givenName", "familyName", "im", "externalId", "addressPoBox", "addressExtended",
        "addressStreet", "addressLocality", "addressRegion", "addressPostalCode", "addressCountry",
        "orgName", "orgTitle", "orgDepartment", "orgDescription", "orgCostCenter",
    },
    "=": {
        "orgUnitPath", "phone", "manager", "managerId", "directManager", "directManagerId", *_FLAGS,
    },
    ":": {"address"},
}  # fmt: skip
_WITHOUT_FIELD = ("givenName", "familyName", "email")
UserTest = Callable[[dict[str, Any]], bool]


def parse_query(text: str) -> list[UserTest]:
    """Parse a query to one test per clause."""
    tests: list[UserTest] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        clause = _CLAUSE.match(text, position)
        if clause is None:
            raise _invalid_query()
        tests.append(_compile_clause(clause["field"] or "", clause["operator"] or "", clause["value"]))
        position = clause.end()
    return tests


def _compile_clause(field: str, operator: str, quoted: str) -> UserTest:
    value = quoted.strip("'\"").casefold()
    if field and not any(field in names and operator in key for key, names in _OPERATORS.items()):
        raise _invalid_query()
    if field in _FLAGS:
        if value not in {"true", "false"}:
            raise _invalid_query()
        return lambda user: user[_FLAGS[field]] == (value == "true")
    if not value or "*" in value[:-1]:
        raise _invalid_query()
    names = (field,) if field else _WITHOUT_FIELD
    matches = _compile_text(operator, value)
    return lambda user: any(matches(_TEXTS[name](user).casefold()) for name in names if name in _TEXTS)


def _compile_text(operator: str, value: str) -> Callable[[str], bool]:
    if operator == "=":
        return lambda text: text == value
    if value.endswith("*"):
        return lambda text: any(word.startswith(value[:-1]) for word in (text, *text.split()))
    return lambda text: text == value or value in re.split(r"[\s@.]+", text) or f" {value} " in f" {text} "


def _invalid_query() -> GmailError:
    return GmailError(GmailErrorBody(400, "invalid", "Invalid Input: query"))
