"""Limits the work of matching labels with values, before it begins.

Each label is compared with the values and labels on its line and the lines below. A real document has a few
of them on a line. A text made to be slow has hundreds; it needs review, and no field is read from it.
"""

from typing import Final

from postroom.documents.fields.label_matching import ROWS_BELOW, LabelContext

MAX_LINE_VALUES: Final = 120
MAX_LINE_LABELS: Final = 60
MAX_COMPARISONS: Final = 1_000_000


def explain_excess(context: LabelContext) -> str | None:
    """Say why the text has too many labels and values to be read; None if it has not."""
    lines = range(len(context.document.lines))
    labels = [len(context.hits.get(line, ())) for line in lines]
    values = [len(context.values.get(line, ())) for line in lines]
    if max(values, default=0) > MAX_LINE_VALUES:
        return f"a line of the text has more than {MAX_LINE_VALUES} numbers, dates and codes"
    if max(labels, default=0) > MAX_LINE_LABELS:
        return f"a line of the text has more than {MAX_LINE_LABELS} labels"
    pairs = [count * (1 + near) for count, near in zip(values, labels, strict=True)]
    comparisons = sum(
        count * sum(pairs[line : line + ROWS_BELOW + 1]) for line, count in enumerate(labels) if count
    )
    if comparisons > MAX_COMPARISONS:
        return "the text has too many labels and values close together"
    return None
