"""`$filter`: a small language over message properties, parsed to a tree and evaluated on one item at a time.

An item is a function from a property's name to its JSON value, so that cheap properties stay cheap.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, assert_never, cast

from mailsim.graph.errors import bad_request, unknown_property

Type = Literal["text", "date", "bool", "enum", "number", "texts", "recipients", "object", "id"]
Item = Callable[[str], Any]
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


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of Graph: its properties (with sub-paths), what may be expanded, in Microsoft's spelling."""

    name: str
    types: Mapping[str, Type]
    spellings: Mapping[str, str]
    navigation: Mapping[str, str]

    def path(self, written: str) -> str:
        known = self.spellings.get(written.lower())
        if known is None:
            raise unknown_property(written.split("/", maxsplit=1)[0], self.name)
        return known

    def spelling(self, written: str) -> str:
        """A name for $select: a property, a navigation property, or a sub-path, which selects its head."""
        head = written.split("/", maxsplit=1)[0]
        known = self.spellings.get(head.lower()) or self.navigation.get(head.lower())
        if known is None:
            raise unknown_property(head, self.name)
        return known

    def kind_of(self, path: str) -> Type:
        return self.types[path]


def make_kind(name: str, types: Mapping[str, Type], navigation: tuple[str, ...] = ()) -> Kind:
    return Kind(name, types, {path.lower(): path for path in types}, {nav.lower(): nav for nav in navigation})


@dataclass(frozen=True, slots=True)
class Compare:
    path: str
    op: str
    value: Any
    kind: Type
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Match:
    """startswith, endswith, contains. Exchange compares text without regard to case."""

    path: str
    test: str
    value: str


@dataclass(frozen=True, slots=True)
class Some:
    """`categories/any(c:c eq 'Red')`; `path` under the variable is empty for plain texts."""

    path: str
    inner: "Node"


@dataclass(frozen=True, slots=True)
class Not:
    inner: "Node"


@dataclass(frozen=True, slots=True)
class Both:
    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Either:
    parts: tuple["Node", ...]


Node = Compare | Match | Some | Not | Both | Either


def paths(node: Node) -> Iterator[str]:
    """The properties of a filter, in the order in which they are written."""
    match node:
        case Compare() | Match() | Some():
            yield node.path
        case Not():
            yield from paths(node.inner)
        case Both() | Either():
            for part in node.parts:
                yield from paths(part)
        case _:
            assert_never(node)


def holds(node: Node, item: Item) -> bool:
    """Does the filter let this item pass?"""
    match node:
        case Both():
            return all(holds(part, item) for part in node.parts)
        case Either():
            return any(holds(part, item) for part in node.parts)
        case Not():
            return not holds(node.inner, item)
        case Some():
            values: list[Any] = reach(item, node.path) or []
            return any(holds(node.inner, _under(value)) for value in values)
        case Match():
            text = reach(item, node.path)
            return isinstance(text, str) and _TESTS[node.test](text.casefold(), node.value.casefold())
        case Compare():
            return _compare(node, reach(item, node.path))
        case _:
            assert_never(node)


def _under(value: Any) -> Item:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get
    return lambda _name: value


def reach(item: Item, path: str) -> Any:
    """The value at `from/emailAddress/address`, None where something on the way is missing."""
    head, *rest = path.split("/")
    value = item(head)
    for name in rest:
        value = value.get(name) if isinstance(value, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return value  # pyright: ignore[reportUnknownVariableType]


def _compare(node: Compare, value: Any) -> bool:
    wanted = node.value
    if value is None or wanted is None:
        same = value is None and wanted is None
        return same if node.op == "eq" else not same if node.op == "ne" else False
    if node.kind == "date":
        value = datetime.fromisoformat(value)
    elif node.kind in {"text", "enum"} and isinstance(value, str):
        value, wanted = value.casefold(), wanted.casefold()
    return _OPERATORS[node.op](value, wanted)


_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<date>\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-]\d\d:\d\d)?)?)|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<word>[A-Za-z_@][\w.@/]*)|(?P<mark>[(),:]))",
)


def parse(text: str, kind: Kind) -> Node:
    reader = _Reader(_tokens(text), kind, text)
    node = reader.either()
    reader.end()
    return node


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    place = 0
    text = text.rstrip()
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None or token.lastgroup is None:
            raise bad_request(f"Invalid filter clause: Syntax error at position {place} in '{text[:100]}'.")
        found.append((token.lastgroup, token.group(token.lastgroup)))
        place = token.end()
    return found


class _Reader:
    """Recursive descent; `variable` is what the lambda being read binds, `within` its collection's type."""

    def __init__(self, tokens: list[tuple[str, str]], kind: Kind, text: str) -> None:
        self._tokens = tokens
        self._kind = kind
        self._text = text
        self._place = 0
        self._depth = 0
        self._variable: str | None = None
        self._within: Type = "object"

    def either(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise bad_request("Invalid filter clause: The node count limit has been exceeded.")
        parts = [self._both()]
        while self._word("or"):
            parts.append(self._both())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def end(self) -> None:
        if self._place != len(self._tokens):
            raise self._wrong()

    def _both(self) -> Node:
        parts = [self._single()]
        while self._word("and"):
            parts.append(self._single())
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def _single(self) -> Node:
        if self._word("not"):
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise bad_request("Invalid filter clause: The node count limit has been exceeded.")
            node = Not(self._single())
            self._depth -= 1
            return node
        if self._mark("("):
            node = self.either()
            self._expect(")")
            return node
        sort, value = self._next()
        if sort != "word":
            raise self._wrong()
        if value.lower() in _TESTS and self._mark("("):
            return self._test(value.lower())
        if value.lower() in {"tolower", "toupper"} and self._mark("("):
            path, kind = self._operand(self._next())
            self._expect(")")
            return self._comparison(path, kind)
        head, _, last = value.rpartition("/")
        if last.lower() == "any" and self._mark("("):
            return self._lambda(head)
        path, kind = self._operand((sort, value))
        return self._comparison(path, kind)

    def _test(self, name: str) -> Node:
        token = self._next()
        if token[1].lower() in {"tolower", "toupper"} and self._mark("("):
            token = self._next()
            self._expect(")")
        path, kind = self._operand(token)
        self._expect(",")
        sort, value = self._next()
        self._expect(")")
        if sort != "text" or kind not in {"text", "id"}:
            raise bad_request(
                f"Invalid filter clause: No function signature for the function '{name}' matches."
            )
        tail, value_word = self._peek()
        if tail == "word" and value_word.lower() == "eq":
            return self._equals_boolean(Match(path, name, _unquote(value)))
        return Match(path, name, _unquote(value))

    def _equals_boolean(self, node: Node) -> Node:
        """`contains(subject,'x') eq true`, as some clients write it."""
        self._next()
        _, word = self._next()
        if word.lower() not in {"true", "false"}:
            raise self._wrong()
        return node if word.lower() == "true" else Not(node)

    def _lambda(self, written: str) -> Node:
        if self._variable is not None:
            raise self._wrong()
        path = self._kind.path(written)
        collection = self._kind.kind_of(path)
        if collection not in {"texts", "recipients"}:
            raise bad_request("Invalid filter clause: any may only follow a collection.")
        sort, name = self._next()
        if sort != "word" or not self._mark(":"):
            raise self._wrong()
        self._variable, self._within = name, collection
        inner = self.either()
        self._variable = None
        self._expect(")")
        return Some(path, inner)

    def _operand(self, token: tuple[str, str]) -> tuple[str, Type]:
        sort, written = token
        if sort != "word":
            raise self._wrong()
        if self._variable is None:
            path = self._kind.path(written)
            return path, self._kind.kind_of(path)
        head, _, rest = written.partition("/")
        if head != self._variable:
            raise bad_request(f"Invalid filter clause: the range variable '{head}' is not known.")
        known = {"texts": {"": ""}, "recipients": {"emailaddress/address": "", "emailaddress/name": ""}}
        if rest.lower() not in known.get(self._within, {}):
            raise unknown_property(rest or head, "recipient")
        spelled = {"emailaddress/address": "emailAddress/address", "emailaddress/name": "emailAddress/name"}
        return spelled.get(rest.lower(), ""), "text"

    def _comparison(self, path: str, kind: Type) -> Node:
        sort, op = self._peek()
        if sort != "word" or op.lower() not in _OPERATORS:
            if kind == "bool":
                return Compare(path, "eq", value=True, kind=kind)
            raise self._wrong()
        self._next()
        return Compare(path, op.lower(), _literal(self._next(), kind), kind)

    def _next(self) -> tuple[str, str]:
        if self._place >= len(self._tokens):
            raise self._wrong()
        self._place += 1
        return self._tokens[self._place - 1]

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._place] if self._place < len(self._tokens) else ("end", "")

    def _word(self, word: str) -> bool:
        sort, value = self._peek()
        if sort == "word" and value.lower() == word:
            self._place += 1
            return True
        return False

    def _mark(self, mark: str) -> bool:
        if self._peek() == ("mark", mark):
            self._place += 1
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._mark(mark):
            raise self._wrong()

    def _wrong(self) -> Exception:
        return bad_request(
            f"Invalid filter clause: Syntax error at position {self._place} in '{self._text[:100]}'."
        )


def _unquote(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _literal(token: tuple[str, str], kind: Type) -> Any:
    """The right side of a comparison, of the type that the left side has."""
    sort, text = token
    if sort == "word" and text.lower() == "null":
        return None
    if kind == "bool" and sort == "word" and text.lower() in {"true", "false"}:
        return text.lower() == "true"
    if kind in {"text", "enum", "id"} and sort == "text":
        return _unquote(text)
    if kind == "number" and sort == "number":
        return float(text)
    if kind == "date" and sort == "date":
        return read_date(text)
    raise bad_request("Invalid filter clause: A binary operator with incompatible types was detected.")


def read_date(text: str) -> datetime:
    """A DateTimeOffset; a date alone, or a time without zone, is not one."""
    try:
        moment = datetime.fromisoformat(_seven_digits.sub(r"\1", text))
    except ValueError as error:
        raise bad_request(f"Invalid filter clause: '{text}' is not a DateTimeOffset.") from error
    if moment.tzinfo is None:
        raise bad_request(f"Invalid filter clause: '{text}' is not a DateTimeOffset.")
    return moment


_seven_digits = re.compile(r"(\.\d{6})\d+")


def equal_to(node: Node | None, path: str) -> Any:
    """The value that every passing item has at this path, if the filter says so."""
    for part in node.parts if isinstance(node, Both) else (node,):
        if isinstance(part, Compare) and part.path == path and part.op == "eq":
            return part.value
    return None


def not_before(node: Node | None, path: str) -> datetime | None:
    """A lower bound that every passing item keeps, so that lists need not look at older mail."""
    bound: datetime | None = None
    for part in node.parts if isinstance(node, Both) else (node,):
        if isinstance(part, Compare) and part.path == path and part.op in {"ge", "gt", "eq"}:
            value = part.value
            if isinstance(value, datetime) and (bound is None or value > bound):
                bound = value
    return bound
