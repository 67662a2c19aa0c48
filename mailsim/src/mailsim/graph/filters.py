"""Parser and evaluator of `$filter`, on the properties that an EntityType declares.

An item is passed as a function from property name to JSON value, so that cheap properties stay cheap. The
other query options are in `odata`.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, assert_never, cast

from mailsim.errors import explain_unsimulated
from mailsim.graph.entity_types import EntityType, PropertyType
from mailsim.graph.errors import GraphError, bad_request, unknown_property

PropertyReader = Callable[[str], Any]
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "gt": operator.gt, "ge": operator.ge,
    "lt": operator.lt, "le": operator.le,
}  # fmt: skip
_TESTS: dict[str, Callable[[str, str], bool]] = {
    "startswith": lambda text, part: text.startswith(part),
    "endswith": lambda text, part: text.endswith(part),
    "contains": lambda text, part: part in text,
}
MAX_DEPTH = 40
# The directory has the operator `in`, Exchange does not.
_WITH_IN = frozenset({"user", "group"})
# Canonical functions of OData 4.0. Microsoft does not say which of them work for messages.
_UNSIMULATED_FUNCTIONS = frozenset(
    {
        "cast", "ceiling", "concat", "date", "day", "floor", "hour", "indexof", "isof", "length", "minute",
        "month", "round", "second", "substring", "time", "trim", "year",
    }
)  # fmt: skip
# The paths below the variable of a lambda, by collection and lower-case spelling.
_ELEMENTS: dict[str, dict[str, str]] = {
    "texts": {"": ""},
    "recipients": {
        "emailaddress/address": "emailAddress/address",
        "emailaddress/name": "emailAddress/name",
    },
    "properties": {"id": "id", "value": "value"},
    "arrays": {"id": "id"},
}


@dataclass(frozen=True, slots=True)
class Comparison:
    path: str
    op: str
    value: Any
    kind: PropertyType
    folded: bool = False


@dataclass(frozen=True, slots=True)
class TextMatch:
    """startswith, endswith or contains. Exchange ignores case."""

    path: str
    test: str
    value: str


@dataclass(frozen=True, slots=True)
class AnyElement:
    """`categories/any(c:c eq 'Red')`. The path below the variable is empty for strings."""

    path: str
    inner: "FilterNode"


@dataclass(frozen=True, slots=True)
class Negation:
    inner: "FilterNode"


@dataclass(frozen=True, slots=True)
class Conjunction:
    parts: tuple["FilterNode", ...]


@dataclass(frozen=True, slots=True)
class Disjunction:
    parts: tuple["FilterNode", ...]


FilterNode = Comparison | TextMatch | AnyElement | Negation | Conjunction | Disjunction


def list_paths(node: FilterNode) -> Iterator[str]:
    """Iterate over the property paths of a filter in written order."""
    match node:
        case Comparison() | TextMatch() | AnyElement():
            yield node.path
        case Negation():
            yield from list_paths(node.inner)
        case Conjunction() | Disjunction():
            for part in node.parts:
                yield from list_paths(part)
        case _:
            assert_never(node)


def list_operators(node: FilterNode) -> Iterator[str]:
    """Return the operators and functions of a filter, in order."""
    match node:
        case Comparison():
            yield node.op
        case TextMatch():
            yield node.test
        case AnyElement():
            yield from list_operators(node.inner)
        case Negation():
            yield "not"
            yield from list_operators(node.inner)
        case Conjunction() | Disjunction():
            for part in node.parts:
                yield from list_operators(part)
        case _:
            assert_never(node)


def matches(node: FilterNode, item: PropertyReader) -> bool:
    """Return whether the item passes the filter."""
    match node:
        case Conjunction():
            return all(matches(part, item) for part in node.parts)
        case Disjunction():
            return any(matches(part, item) for part in node.parts)
        case Negation():
            return not matches(node.inner, item)
        case AnyElement():
            values: list[Any] = get_value(item, node.path) or []
            return any(matches(node.inner, _element_reader(value)) for value in values)
        case TextMatch():
            text = get_value(item, node.path)
            return isinstance(text, str) and _TESTS[node.test](text.casefold(), node.value.casefold())
        case Comparison():
            return _compare(node, get_value(item, node.path))
        case _:
            assert_never(node)


def _element_reader(value: Any) -> PropertyReader:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get
    return lambda _name: value


def get_value(item: PropertyReader, path: str) -> Any:
    """Return the value at a path such as `from/emailAddress/address`, or None if a part is missing."""
    head, *rest = path.split("/")
    value = item(head)
    for name in rest:
        value = value.get(name) if isinstance(value, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return value  # pyright: ignore[reportUnknownVariableType]


def _compare(node: Comparison, value: Any) -> bool:
    expected = node.value
    if value is None or expected is None:
        same = value is None and expected is None
        return same if node.op == "eq" else not same if node.op == "ne" else False
    if node.kind == "date":
        value = datetime.fromisoformat(value)
    elif node.kind in {"text", "enum"} and isinstance(value, str):
        value, expected = value.casefold(), expected.casefold()
    return _OPERATORS[node.op](value, expected)


_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<date>\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-]\d\d:\d\d)?)?)|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<word>[A-Za-z_@][\w.@/]*)|(?P<mark>[(),:]))",
)


def parse(text: str, entity_type: EntityType) -> FilterNode:
    parser = _FilterParser(_tokenize(text), entity_type, text)
    node = parser.parse_disjunction()
    parser.expect_end()
    return node


def _tokenize(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None or token.lastgroup is None:
            raise bad_request(
                f"Invalid filter clause: Syntax error at position {position} in '{text[:100]}'."
            )
        tokens.append((token.lastgroup, token.group(token.lastgroup)))
        position = token.end()
    return tokens


class _FilterParser:
    """A recursive descent parser. `_variable` is bound by the current lambda, `_within` its collection."""

    def __init__(self, tokens: list[tuple[str, str]], entity_type: EntityType, text: str) -> None:
        self._tokens = tokens
        self._entity_type = entity_type
        self._text = text
        self._position = 0
        self._depth = 0
        self._variable: str | None = None
        self._within: PropertyType = "object"

    def parse_disjunction(self) -> FilterNode:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise bad_request("Invalid filter clause: The node count limit has been exceeded.")
        parts = [self._parse_conjunction()]
        while self._accept_word("or"):
            parts.append(self._parse_conjunction())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else Disjunction(tuple(parts))

    def expect_end(self) -> None:
        if self._position != len(self._tokens):
            raise self._syntax_error()

    def _parse_conjunction(self) -> FilterNode:
        parts = [self._parse_single()]
        while self._accept_word("and"):
            parts.append(self._parse_single())
        return parts[0] if len(parts) == 1 else Conjunction(tuple(parts))

    def _parse_single(self) -> FilterNode:
        if self._accept_word("not"):
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise bad_request("Invalid filter clause: The node count limit has been exceeded.")
            node = Negation(self._parse_single())
            self._depth -= 1
            return node
        if self._accept_mark("("):
            node = self.parse_disjunction()
            self._expect(")")
            return node
        lexeme_type, value = self._next()
        if lexeme_type != "word":
            raise self._syntax_error()
        if value.lower() in _TESTS and self._accept_mark("("):
            return self._parse_text_match(value.lower())
        if value.lower() in {"tolower", "toupper"} and self._accept_mark("("):
            path, kind = self._parse_operand(self._next())
            self._expect(")")
            return self._parse_comparison(path, kind)
        head, _, last = value.rpartition("/")
        if last.lower() == "any" and self._accept_mark("("):
            return self._parse_lambda(head)
        path, kind = self._parse_operand((lexeme_type, value))
        return self._parse_comparison(path, kind)

    def _parse_text_match(self, name: str) -> FilterNode:
        token = self._next()
        if token[1].lower() in {"tolower", "toupper"} and self._accept_mark("("):
            token = self._next()
            self._expect(")")
        path, kind = self._parse_operand(token)
        self._expect(",")
        lexeme_type, value = self._next()
        self._expect(")")
        if lexeme_type != "text" or kind not in {"text", "id"}:
            raise bad_request(
                f"Invalid filter clause: No function signature for the function '{name}' matches."
            )
        tail, value_word = self._peek()
        if tail == "word" and value_word.lower() == "eq":
            return self._parse_boolean_suffix(TextMatch(path, name, _unquote(value)))
        return TextMatch(path, name, _unquote(value))

    def _parse_boolean_suffix(self, node: FilterNode) -> FilterNode:
        """Parse `contains(subject,'x') eq true`, as some clients write it."""
        self._next()
        _, word = self._next()
        if word.lower() not in {"true", "false"}:
            raise self._syntax_error()
        return node if word.lower() == "true" else Negation(node)

    def _parse_lambda(self, written: str) -> FilterNode:
        if self._variable is not None:
            raise self._syntax_error()
        path = self._entity_type.resolve_path(written)
        collection = self._entity_type.property_type(path)
        if collection not in _ELEMENTS:
            raise bad_request("Invalid filter clause: any may only follow a collection.")
        lexeme_type, name = self._next()
        if lexeme_type != "word" or not self._accept_mark(":"):
            raise self._syntax_error()
        self._variable, self._within = name, collection
        inner = self.parse_disjunction()
        self._variable = None
        self._expect(")")
        return AnyElement(path, inner)

    def _parse_operand(self, token: tuple[str, str]) -> tuple[str, PropertyType]:
        lexeme_type, written = token
        if lexeme_type != "word":
            raise self._syntax_error()
        if written.lower() in _UNSIMULATED_FUNCTIONS and self._peek() == ("mark", "("):
            raise GraphError(501, "NotImplemented", explain_unsimulated(f"'{written}' in $filter"))
        if self._variable is None:
            path = self._entity_type.resolve_path(written)
            return path, self._entity_type.property_type(path)
        head, _, rest = written.partition("/")
        if head != self._variable:
            raise bad_request(f"Invalid filter clause: the range variable '{head}' is not known.")
        spelled = _ELEMENTS[self._within].get(rest.lower())
        if spelled is None:
            raise unknown_property(rest or head, "recipient")
        return spelled, "text"

    def _parse_comparison(self, path: str, kind: PropertyType) -> FilterNode:
        if self._entity_type.name in _WITH_IN and self._accept_word("in"):
            return Disjunction(tuple(self._parse_values(path, kind)))
        lexeme_type, op = self._peek()
        if lexeme_type != "word" or op.lower() not in _OPERATORS:
            if kind == "bool":
                return Comparison(path, "eq", value=True, kind=kind)
            raise self._syntax_error()
        self._next()
        return Comparison(path, op.lower(), _parse_literal(self._next(), kind), kind)

    def _parse_values(self, path: str, kind: PropertyType) -> Iterator[FilterNode]:
        """Parse the list of `mail in ('a@example.org','b@example.org')`."""
        self._expect("(")
        yield Comparison(path, "eq", _parse_literal(self._next(), kind), kind)
        while self._accept_mark(","):
            yield Comparison(path, "eq", _parse_literal(self._next(), kind), kind)
        self._expect(")")

    def _next(self) -> tuple[str, str]:
        if self._position >= len(self._tokens):
            raise self._syntax_error()
        self._position += 1
        return self._tokens[self._position - 1]

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._position] if self._position < len(self._tokens) else ("end", "")

    def _accept_word(self, word: str) -> bool:
        lexeme_type, value = self._peek()
        if lexeme_type == "word" and value.lower() == word:
            self._position += 1
            return True
        return False

    def _accept_mark(self, mark: str) -> bool:
        if self._peek() == ("mark", mark):
            self._position += 1
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._accept_mark(mark):
            raise self._syntax_error()

    def _syntax_error(self) -> Exception:
        return bad_request(
            f"Invalid filter clause: Syntax error at position {self._position} in '{self._text[:100]}'."
        )


def _unquote(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _parse_literal(token: tuple[str, str], kind: PropertyType) -> Any:
    """Parse the right side of a comparison as the type of the left side."""
    lexeme_type, text = token
    if lexeme_type == "word" and text.lower() == "null":
        return None
    if kind == "bool" and lexeme_type == "word" and text.lower() in {"true", "false"}:
        return text.lower() == "true"
    if kind in {"text", "enum", "id"} and lexeme_type == "text":
        return _unquote(text)
    if kind == "number" and lexeme_type == "number":
        return float(text)
    if kind == "date" and lexeme_type == "date":
        return parse_date(text)
    raise bad_request("Invalid filter clause: A binary operator with incompatible types was detected.")


def parse_date(text: str) -> datetime:
    """Parse a DateTimeOffset, or a date alone, which begins at midnight UTC. A time needs its zone."""
    try:
        moment = datetime.fromisoformat(_EXCESS_DIGITS.sub(r"\1", text))
        if _DATE.fullmatch(text):
            moment = moment.replace(tzinfo=UTC)
    except ValueError as error:
        raise bad_request(f"Invalid filter clause: '{text}' is not a DateTimeOffset.") from error
    if moment.tzinfo is None:
        raise bad_request(f"Invalid filter clause: '{text}' is not a DateTimeOffset.")
    return moment


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_EXCESS_DIGITS = re.compile(r"(\.\d{6})\d+")


def find_required_value(node: FilterNode | None, path: str) -> Any:
    """Return the value that the filter requires at this path, if any."""
    for part in node.parts if isinstance(node, Conjunction) else (node,):
        if isinstance(part, Comparison) and part.path == path and part.op == "eq":
            return part.value
    return None


def find_lower_bound(node: FilterNode | None, path: str) -> datetime | None:
    """Return the lower bound that the filter sets at this path, so that lists can skip older mail."""
    bound: datetime | None = None
    for part in node.parts if isinstance(node, Conjunction) else (node,):
        if isinstance(part, Comparison) and part.path == path and part.op in {"ge", "gt", "eq"}:
            value = part.value
            if isinstance(value, datetime) and (bound is None or value > bound):
                bound = value
    return bound
