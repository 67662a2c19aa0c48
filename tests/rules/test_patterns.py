"""Every regular expression of the service: no text makes it need more than linear time."""

import ast
import importlib
import pkgutil
import re
import time
from pathlib import Path

import postroom
from growth import MOST, STEPS
from rules.pattern_attacks import make_attacks
from rules.source_tree import parse

SOURCES = Path(postroom.__file__).parent
SIZE = 4096
_SHORT = 0.004  # CPU seconds; quadratic work on a text of this size takes several times as long
_CALLS = {"compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
_LINE = "one line of a document, cut after 1,000 characters"
# Patterns that are not linear, and the limit of their input that bounds the work.
BOUNDED = {
    "documents/fields/check_digits.py:iban_length:0": "a table of the stdnum package",
    "documents/fields/field_selection.py:_clean_name:0": _LINE,
    "documents/fields/value_parsing.py:_match_labelled_iban:1": _LINE,
    "postroom.documents.fields.field_selection:_DATED": _LINE,
    "postroom.documents.fields.issuer:_DOMAIN": "no match crosses the end of a line, which is cut",
    "postroom.documents.fields.issuer:_NAME_LABEL": _LINE,
    "postroom.documents.fields.issuer:_STREET": "a name of at most 80 characters",
    "postroom.documents.fields.value_parsing:_NUMBER": _LINE,
    "postroom.documents.fields.value_parsing:_ONLY_COMMA": "no match crosses the end of a line, which is cut",
    "postroom.documents.fields.value_parsing:_ONLY_POINT": "no match crosses the end of a line, which is cut",
    "postroom.documents.fields.value_parsing:_SPACED": "no match crosses the end of a line, which is cut",
    "postroom.documents.fields.value_parsing:_TIME": _LINE,
    "postroom.web.check_texts:_TITLE": _LINE,
}
# Functions that put a pattern together: label phrases (searched in one line), escaped text, and own formats.
COMPOSED = {
    "documents/fields/field_validation.py",
    "documents/fields/label_search.py",
    "mime/text.py",
    "web/documents.py",
}


def find_compiled_patterns():
    """The patterns in the globals of all modules, also within tuples, dictionaries and phrase searches."""
    for info in pkgutil.walk_packages(postroom.__path__, "postroom."):
        if not info.name.endswith("__main__"):
            module = importlib.import_module(info.name)
            source = Path(module.__file__).read_text()
            for name, value in vars(module).items():
                uses = set(re.findall(rf"\b{name}\.(\w+)\(", source))
                anchored = bool(uses) and uses <= {"match", "fullmatch"}
                yield from _patterns_in(f"{info.name}:{name}", value, anchored=anchored)


def _patterns_in(name, value, *, anchored):
    if isinstance(value, re.Pattern):
        yield name, (value.match if anchored else value.finditer)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _patterns_in(f"{name}[{key}]", each, anchored=anchored)
    elif isinstance(value, tuple | list):
        for key, each in enumerate(value):
            yield from _patterns_in(f"{name}[{key}]", each, anchored=anchored)


def find_written_patterns():
    """The patterns in calls of `re` inside functions, and those of typed fields, with how they are used."""
    for path in sorted(SOURCES.rglob("*.py")):
        file = path.relative_to(SOURCES).as_posix()
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for place, call in enumerate(_calls_of_re(node)):
                    first = call.args[0]
                    written = first.value if isinstance(first, ast.Constant) else None
                    yield f"{file}:{node.name}:{place}", written, call.func.attr
            if (
                isinstance(node, ast.keyword)
                and node.arg == "pattern"
                and isinstance(node.value, ast.Constant)
            ):
                yield f"{file}:{node.value.value}", node.value.value, "search"


def _calls_of_re(function):
    return [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in _CALLS
    ]


def collect():
    """The search of each pattern by its name; one for each distinct pattern."""
    searches = dict(find_compiled_patterns())
    for name, written, method in find_written_patterns():
        if isinstance(written, str | bytes):
            pattern = re.compile(written)
            searches[name] = pattern.match if method in {"match", "fullmatch"} else pattern.finditer
    distinct = {(search.__self__, search.__name__): name for name, search in searches.items()}
    return {name: searches[name] for name in sorted(distinct.values())}


def spend(search, text):
    given = text if isinstance(search.__self__.pattern, str) else text.encode()
    begun = time.process_time()
    for _ in search(given) or () if search.__name__ == "finditer" else [search(given)]:
        pass
    return time.process_time() - begun


def is_slow(search, attack):
    if spend(search, attack(SIZE // STEPS)) > _SHORT:
        return min(spend(search, attack(SIZE // STEPS)) for _ in range(2)) > _SHORT  # exponential, or nearly
    if spend(search, attack(SIZE)) < _SHORT:
        return False
    small = min(spend(search, attack(SIZE // STEPS)) for _ in range(5))
    return min(spend(search, attack(SIZE)) for _ in range(3)) > MOST * small


def test_the_attacks_find_slow_patterns():
    for slow in (r"[^\s@]+@x", r"<a.*?>"):
        pattern = re.compile(slow, re.DOTALL)
        assert any(is_slow(pattern.finditer, attack) for attack in make_attacks(pattern)), slow


def test_no_text_makes_a_pattern_slow():
    searches = collect()
    assert len(searches) > 150
    slow = {
        name
        for name, search in searches.items()
        if name not in BOUNDED and any(is_slow(search, attack) for attack in make_attacks(search.__self__))
    }
    assert not slow
    assert BOUNDED.keys() <= searches.keys()


def test_patterns_put_together_at_run_time_are_known():
    composed = {
        f"{name.partition(':')[0]}" for name, written, _ in find_written_patterns() if written is None
    }
    assert composed == COMPOSED
