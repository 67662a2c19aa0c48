"""Filters by due date, date and amount, which documents and records share."""

from typing import Final

from postroom.store.lists.list_definition import FilterChoice, ListFilter

DUE_FILTER: Final = ListFilter(
    "due", "Due", "false",
    choices=(
        FilterChoice(
            "overdue", "Overdue",
            "coalesce(due, '') > '' AND coalesce(due, '') < to_char(postroom_now(), 'YYYY-MM-DD')",
        ),
        FilterChoice(
            "week", "Within 7 days",
            "coalesce(due, '') BETWEEN to_char(postroom_now(), 'YYYY-MM-DD')"
            " AND to_char(postroom_now() + interval '7 days', 'YYYY-MM-DD')",
        ),
    ),
)  # fmt: skip
DATE_FILTERS: Final = (
    ListFilter("from", "Dated from", "coalesce(dated, '') >= %(from)s", "day"),
    ListFilter("until", "Dated until", "coalesce(dated, '') BETWEEN '1' AND %(until)s", "day"),
)
AMOUNT_FILTERS: Final = (
    ListFilter("min", "Amount from", "amount_key >= %(min)s", "amount"),
    ListFilter("max", "Amount to", "amount_key > '-infinity' AND amount_key <= %(max)s", "amount"),
)
