"""The kept and the published heads of ledgers."""

from uuid import UUID

import pytest

from postroom.errors import OperatorError
from postroom.vault import LedgerHeads

FIRST, SECOND = UUID(int=1), UUID(int=2)


def head(number):
    return f"{number}:{number:064x}"


@pytest.fixture
def heads(tmp_path):
    return LedgerHeads(tmp_path / "home", tmp_path / "published")


def test_emptied_file_holds_no_heads(heads):
    """To accept a restored backup, an operator removes an organization's line, which may be the only one."""
    heads.keep(FIRST, head(1))
    heads.path.write_text("")
    assert heads.load() == {}
    heads.keep(FIRST, head(2))
    assert heads.load() == {FIRST: head(2)}


@pytest.mark.parametrize("line", ["", "nonsense", f"{FIRST} 1:abc", f"{FIRST} {head(1)} more"])
def test_malformed_line_is_damage(heads, line):
    heads.keep(FIRST, head(1))
    heads.path.write_text(f"{FIRST} {head(1)}\n{line}\n")
    with pytest.raises(OperatorError, match=r"ledger\.heads is damaged\. Restore it from a backup\."):
        heads.keep(FIRST, head(2))


def test_head_is_published_once_and_never_replaced_by_an_earlier_one(heads):
    for number in (1, 2, 2, 1):
        heads.keep(FIRST, head(number))
    heads.path.unlink()
    heads.keep(FIRST, head(2))  # as after a crash between publishing and keeping
    lines = heads.published.read_text().splitlines()
    assert [line.split()[1:] for line in lines] == [[str(FIRST), head(1)], [str(FIRST), head(2)]]
    assert heads.load() == {FIRST: head(2)}


def test_long_published_file_is_read_from_its_end(heads):
    heads.published.write_text(
        "".join(f"2026-11-15T09:30:00+00:00 {FIRST} {head(number)}\n" for number in range(1, 3000))
        + f"2026-11-15T09:30:00+00:00 {SECOND} {head(7)}\n"
    )
    assert heads.list_newest(FIRST) == [head(2999)]
    assert heads.list_newest(SECOND) == [head(7)]
    assert list(heads.list_known(FIRST)) == [head(number) for number in range(2999, 0, -1)]


def test_unusable_file_is_reported_with_its_own_remedy(heads, tmp_path):
    heads.published.mkdir()
    with pytest.raises(
        OperatorError, match=r"is a directory.*set POSTROOM_LEDGER_HEADS_FILE to another file\.$"
    ):
        heads.keep(FIRST, head(1))
    assert heads.load() == {}
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatorError, match=r"not a directory.*set POSTROOM_HOME to another directory\.$"):
        LedgerHeads(tmp_path / "file").load()
