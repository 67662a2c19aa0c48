"""Pages as people write them."""

import pytest

from postroom.documents.page_ranges import PageRange, format_ranges, parse_ranges
from postroom.errors import PermanentError


def test_ranges_are_parsed_and_formatted():
    assert parse_ranges("1-2, 3") == (PageRange(1, 2), PageRange(3, 3))
    assert format_ranges(parse_ranges(" 1-2,3 ,4-9")) == "1-2,3,4-9"


@pytest.mark.parametrize(
    "text", ["", "1", "1-3", "2,3", "1,3", "1-2,2", "2-1,3", "1,2-", "1;2", "0,1", "9" * 50]
)
def test_parts_that_miss_or_repeat_a_page_are_rejected(text):
    with pytest.raises(PermanentError, match=r"1-2,3"):
        parse_ranges(text)
