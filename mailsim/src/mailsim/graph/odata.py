"""OData query options ($select, $expand, $top and others): parsing, checks, and links with options.

Routes apply the options; `filters` parses `$filter`. Every error is Graph's own 400.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote

from mailsim.graph import filters
from mailsim.graph.entity_types import EntityType
from mailsim.graph.errors import bad_request

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
class ExpandOption:
    """`attachments($select=id,name)`: the navigation property and its unparsed options."""

    name: str
    options: str = ""


@dataclass(frozen=True, slots=True)
class ODataQuery:
    """The parsed query options. `raw` contains every option as written, with `$`."""

    select: tuple[str, ...] | None = None
    expand: tuple[ExpandOption, ...] = ()
    top: int | None = None
    skip: int = 0
    where: filters.FilterNode | None = None
    orderby: tuple[tuple[str, bool], ...] = ()
    count: bool = False
    search: str | None = None
    raw: Mapping[str, str] = field(default_factory=dict[str, str])


def parse_options(query_string: str) -> dict[str, str]:
    """Return the options by name. `$` is optional, names ignore case, duplicates are rejected."""
    options: dict[str, str] = {}
    try:
        items = parse_qsl(query_string, keep_blank_values=True, errors="strict", max_num_fields=100)
    except (ValueError, UnicodeDecodeError) as error:
        raise bad_request("The query string is not well formed.") from error
    for name, value in items:
        bare = name.removeprefix("$").lower()
        key = f"${bare}" if bare in SYSTEM else name
        if name.startswith("$") and bare not in SYSTEM:
            raise bad_request(f"The query parameter '{name}' is not supported.")
        if key in options:
            raise bad_request(
                f"Query option '{name}' was specified more than once, but it must be specified at most once."
            )
        options[key] = value
    return options


def parse_query(raw: Mapping[str, str], entity_type: EntityType) -> ODataQuery:
    """Parse the options for an entity type."""
    return ODataQuery(
        select=_parse_select(raw.get("$select"), entity_type),
        expand=_parse_expand(raw.get("$expand"), entity_type),
        top=_parse_number("$top", raw.get("$top"), 1, MAX_TOP),
        skip=_parse_number("$skip", raw.get("$skip"), 0, MAX_SKIP) or 0,
        where=filters.parse(raw["$filter"], entity_type) if raw.get("$filter") else None,
        orderby=_parse_orderby(raw.get("$orderby"), entity_type),
        count=_parse_boolean("$count", raw.get("$count")),
        search=raw.get("$search") or None,
        raw=raw,
    )


def _parse_number(name: str, text: str | None, low: int, high: int) -> int | None:
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


def _parse_boolean(name: str, text: str | None) -> bool:
    if text is None or text.lower() == "false":
        return False
    if text.lower() != "true":
        raise bad_request(
            f"Invalid value '{text[:50]}' for {name} query option. The valid values are 'true' and 'false'."
        )
    return True


def get_flag(raw: Mapping[str, str], name: str) -> bool:
    """Return a boolean option without `$`, such as includeHiddenFolders."""
    value = next((text for key, text in raw.items() if key.lower() == name.lower()), None)
    return _parse_boolean(name, value)


def _parse_select(text: str | None, entity_type: EntityType) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise bad_request("Syntax error: $select holds an empty property name.")
    if "*" in names:
        return None
    return tuple(dict.fromkeys(entity_type.spelling(name) for name in names))


def _parse_expand(text: str | None, entity_type: EntityType) -> tuple[ExpandOption, ...]:
    if text is None:
        return ()
    expands: list[ExpandOption] = []
    for part in _split_top_level(text):
        name, bracket, rest = part.partition("(")
        if bracket and not rest.endswith(")"):
            raise bad_request("Syntax error: unbalanced parentheses in $expand.")
        spelling = entity_type.resolve_navigation(name.strip())
        expands.append(ExpandOption(spelling, rest[:-1] if bracket else ""))
    return tuple(expands)


def _split_top_level(text: str) -> Iterable[str]:
    """Split at commas outside of parentheses."""
    depth, start = 0, 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            raise bad_request("Syntax error: unbalanced parentheses in $expand.")
        if character == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    yield text[start:].strip()


def _parse_orderby(text: str | None, entity_type: EntityType) -> tuple[tuple[str, bool], ...]:
    if not text:
        return ()
    order: list[tuple[str, bool]] = []
    for part in text.split(","):
        words = part.split()
        if not words or len(words) > 2 or (len(words) == 2 and words[1].lower() not in {"asc", "desc"}):
            raise bad_request(f"Syntax error at position 0 in '{part[:80]}'.")
        path = entity_type.resolve_path(words[0])
        if entity_type.property_type(path) not in {"text", "date", "bool", "enum", "number"}:
            raise bad_request(f"The property '{words[0]}' does not support ordering.", "ErrorInvalidUrlQuery")
        order.append((path, len(words) == 2 and words[1].lower() == "desc"))
    return tuple(order)


def check_efficiency(query: ODataQuery) -> None:
    """Raise unless the filter begins with the properties of $orderby, as Exchange requires."""
    if query.where is None or not query.orderby:
        return
    used = list(dict.fromkeys(filters.list_paths(query.where)))
    if used[: len(query.orderby)] != [path for path, _ in query.orderby]:
        raise bad_request(
            "The restriction or sort order is too complex for this operation.", "InefficientFilter"
        )


def build_link(url: str, options: Mapping[str, str]) -> str:
    """Return an absolute link with options as Graph writes them: `$` stays, values are encoded."""
    return (
        url
        + "?"
        + "&".join(f"{quote(name, safe='$')}={quote(value, safe='')}" for name, value in options.items())
    )
