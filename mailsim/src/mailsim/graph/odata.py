"""OData query options as mail clients write them: parsed and checked here, applied by the routes.

Knows names and syntax, no mail. Every mistake is Graph's own 400.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote

from mailsim.graph import filters
from mailsim.graph.errors import bad_request, unknown_property

SYSTEM = (
    "select",
    "expand",
    "top",
    "skip",
    "filter",
    "orderby",
    "count",
    "search",
    "skiptoken",
    "deltatoken",
    "format",
)
MAX_TOP = 1000
MAX_SKIP = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Expand:
    """`attachments($select=id,name)`: the navigation property and its own options, unparsed."""

    name: str
    options: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """What stood behind the question mark. `raw` keeps every option as it was written, `$` included."""

    select: tuple[str, ...] | None = None
    expand: tuple[Expand, ...] = ()
    top: int | None = None
    skip: int = 0
    where: filters.Node | None = None
    orderby: tuple[tuple[str, bool], ...] = ()
    count: bool = False
    search: str | None = None
    raw: Mapping[str, str] = field(default_factory=dict[str, str])


def pairs(query_string: str) -> dict[str, str]:
    """Options by name; `$` may be left out, names ignore case, and none may come twice."""
    found: dict[str, str] = {}
    try:
        items = parse_qsl(query_string, keep_blank_values=True, errors="strict", max_num_fields=100)
    except (ValueError, UnicodeDecodeError) as error:
        raise bad_request("The query string is not well formed.") from error
    for name, value in items:
        bare = name.removeprefix("$").lower()
        key = f"${bare}" if bare in SYSTEM else name
        if name.startswith("$") and bare not in SYSTEM:
            raise bad_request(f"The query parameter '{name}' is not supported.")
        if key in found:
            raise bad_request(
                f"Query option '{name}' was specified more than once, but it must be specified at most once."
            )
        found[key] = value
    return found


def parse(raw: Mapping[str, str], kind: filters.Kind) -> Query:
    """Read the options against the type they are applied to."""
    return Query(
        select=_select(raw.get("$select"), kind),
        expand=_expand(raw.get("$expand"), kind),
        top=_number("$top", raw.get("$top"), 1, MAX_TOP),
        skip=_number("$skip", raw.get("$skip"), 0, MAX_SKIP) or 0,
        where=filters.parse(raw["$filter"], kind) if raw.get("$filter") else None,
        orderby=_orderby(raw.get("$orderby"), kind),
        count=_boolean("$count", raw.get("$count")),
        search=raw.get("$search") or None,
        raw=raw,
    )


def _number(name: str, text: str | None, low: int, high: int) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.lstrip("-").isdigit() and len(text) < 12):
        raise bad_request(f"The value '{text[:50]}' for the query option '{name}' is not a valid integer.")
    value = int(text)
    if not low <= value <= high:
        raise bad_request(
            f"The limit of '{high}' for {name[1:].capitalize()} query has been exceeded. "
            f"The value from the incoming request is '{value}'."
            if value > high
            else f"Invalid value '{value}' for {name} query option found. "
            f"The {name} query option requires a {'positive' if low else 'non-negative'} integer value."
        )
    return value


def _boolean(name: str, text: str | None) -> bool:
    if text is None or text.lower() == "false":
        return False
    if text.lower() != "true":
        raise bad_request(
            f"Invalid value '{text[:50]}' for {name} query option. The valid values are 'true' and 'false'."
        )
    return True


def flag(raw: Mapping[str, str], name: str) -> bool:
    """An option without `$` that is true or false, such as includeHiddenFolders."""
    value = next((text for key, text in raw.items() if key.lower() == name.lower()), None)
    return _boolean(name, value)


def _select(text: str | None, kind: filters.Kind) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise bad_request("Syntax error: $select holds an empty property name.")
    if "*" in names:
        return None
    return tuple(dict.fromkeys(kind.spelling(name) for name in names))


def _expand(text: str | None, kind: filters.Kind) -> tuple[Expand, ...]:
    if text is None:
        return ()
    found: list[Expand] = []
    for part in _top_level(text):
        name, bracket, rest = part.partition("(")
        if bracket and not rest.endswith(")"):
            raise bad_request("Syntax error: unbalanced parentheses in $expand.")
        spelling = kind.navigation.get(name.strip().lower())
        if spelling is None:
            raise unknown_property(name.strip(), kind.name)
        found.append(Expand(spelling, rest[:-1] if bracket else ""))
    return tuple(found)


def _top_level(text: str) -> Iterable[str]:
    """Split at commas that stand outside parentheses."""
    depth, start = 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            raise bad_request("Syntax error: unbalanced parentheses in $expand.")
        if letter == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()


def _orderby(text: str | None, kind: filters.Kind) -> tuple[tuple[str, bool], ...]:
    if not text:
        return ()
    order: list[tuple[str, bool]] = []
    for part in text.split(","):
        words = part.split()
        if not words or len(words) > 2 or (len(words) == 2 and words[1].lower() not in {"asc", "desc"}):
            raise bad_request(f"Syntax error at position 0 in '{part[:80]}'.")
        path = kind.path(words[0])
        if kind.kind_of(path) not in {"text", "date", "bool", "enum", "number"}:
            raise bad_request(f"The property '{words[0]}' does not support ordering.", "ErrorInvalidUrlQuery")
        order.append((path, len(words) == 2 and words[1].lower() == "desc"))
    return tuple(order)


def check_efficiency(query: Query) -> None:
    """Exchange answers filter and order together only when the filter begins with the order's properties."""
    if query.where is None or not query.orderby:
        return
    used = list(dict.fromkeys(filters.paths(query.where)))
    if used[: len(query.orderby)] != [path for path, _ in query.orderby]:
        raise bad_request(
            "The restriction or sort order is too complex for this operation.", "InefficientFilter"
        )


def link(url: str, options: Mapping[str, str]) -> str:
    """An absolute link with options as Graph writes them: `$` stays readable, values are encoded."""
    return (
        url
        + "?"
        + "&".join(f"{quote(name, safe='$')}={quote(value, safe='')}" for name, value in options.items())
    )
