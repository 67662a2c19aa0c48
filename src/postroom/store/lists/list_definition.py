"""What a list consists of: its columns, filters and sorts, and the SQL of each.

All SQL is literal, so that no value can become part of a statement. Filters and sorts use indexed columns of
the list's own table; `joins` adds what only the shown rows need.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, LiteralString
from uuid import UUID

# How a value is shown: `amount` with the row's currency, `amounts` one for each currency.
ColumnShape = Literal["text", "code", "day", "moment", "amount", "amounts", "number", "kind", "side", "state"]
# `heading` is the row's own link, `below` the second line of the column before, `export` only in files.
Placement = Literal["heading", "column", "below", "export"]
FilterShape = Literal["search", "choice", "day", "amount", "uuid"]
SortShape = Literal["moment", "text", "number"]

# Documents of this kind are trades, which have columns of their own.
TRADE_KIND: Final = "contract-note"
ALL: Final = "all"


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A column. One with `trade` is only for lists of trades (True), or only for the others (False)."""

    name: LiteralString
    label: str
    value: LiteralString
    shape: ColumnShape = "text"
    placement: Placement = "column"
    trade: bool | None = None
    link: str = ""  # the path before the id in the column `<name>_id`


@dataclass(frozen=True, slots=True)
class FilterChoice:
    """A choice of a filter. Without a condition of its own, that of the filter compares with the value."""

    value: str
    label: str
    condition: LiteralString = ""


@dataclass(frozen=True, slots=True)
class ListFilter:
    """A filter. `otherwise` applies while nothing is chosen; the choice `all` lifts it.

    `search` selects the ids of matches by an index, at most `%(at_most)s`; `found` is the condition of rows
    that have one of them, `%(found)s`. The condition of a search has no EXISTS, for which the planner
    might read everything first: it is tested row by row.
    """

    name: LiteralString
    label: str
    condition: LiteralString
    shape: FilterShape = "choice"
    search: LiteralString = ""
    found: LiteralString = ""
    choices: Sequence[FilterChoice] = ()
    otherwise: LiteralString = ""
    default_label: str = "All"

    def find_condition(self, value: str) -> LiteralString:
        for choice in self.choices:
            if choice.value == value and choice.condition:
                return choice.condition
        return self.condition


@dataclass(frozen=True, slots=True)
class ListSort:
    """A sort: never NULL, except a `nulls_first` one, which descends only."""

    name: str
    expression: LiteralString
    shape: SortShape = "text"
    is_descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class ListTotals:
    """Which rows have comparable amounts, and what they are: "Confirmed invoices"."""

    label: LiteralString
    amount: LiteralString
    currency: LiteralString
    condition: LiteralString


@dataclass(frozen=True, slots=True)
class ListDefinition:
    """A list: its table, the joins of the shown rows, and what can be shown and asked."""

    name: LiteralString  # also that of the table in all SQL
    title: str
    noun: tuple[str, str]
    table: LiteralString
    joins: LiteralString
    id: LiteralString
    id_type: LiteralString
    columns: Sequence[ListColumn]
    filters: Sequence[ListFilter]
    sorts: Sequence[ListSort]
    tabs: str  # the filter whose choices are tabs; empty where counting them would read every row
    tab_condition: LiteralString  # that filter, for the value `chosen.value`
    totals: ListTotals | None = None
    links: Sequence[LiteralString] = ()  # columns with the ids that other columns link to
    is_aggregate: bool = False  # its table reads all rows anyway, so the first page counts them too

    def list_columns(self, *, is_trade: bool) -> list[ListColumn]:
        """The columns of a list of trades, or of another one."""
        return [column for column in self.columns if column.trade in (None, is_trade)]

    def find_sort(self, name: str | None) -> ListSort:
        """The sort of this name, or else the first."""
        return next((sort for sort in self.sorts if sort.name == name), self.sorts[0])


@dataclass(frozen=True, slots=True)
class ListPosition:
    """The last row of a page: its sort value and id. The next page starts behind it."""

    value: datetime | float | str | None
    id: UUID | int


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What is asked of a list. `values` are those of the filters, validated for their shapes."""

    definition: ListDefinition
    values: Mapping[str, Any]
    sort: ListSort
    is_descending: bool
    after: ListPosition | None = None
    found: Sequence[UUID | int] | None = None  # what the search found, if it is little

    @property
    def search(self) -> ListFilter | None:
        """The filter that searches, if words are given."""
        return next(
            (each for each in self.definition.filters if each.search and each.name in self.values), None
        )

    @property
    def is_trade(self) -> bool:
        """Whether all its rows are trades."""
        return self.values.get("kind") == TRADE_KIND
