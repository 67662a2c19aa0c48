"""Names and prose keep to docs/glossary.md, and a class name means one thing in a distribution."""

import ast
import io
import re
import tokenize
from collections import defaultdict

import pytest

from rules.source_tree import ROOT, list_modules, list_tracked, parse, relative

DISTRIBUTIONS = {"postroom": "src", "mailsim": "mailsim/src", "chaos": "chaos/src"}
GLOSSARY = (ROOT / "docs/glossary.md").read_text()
# The last column of the terms, and the first one of the words that make poor English.
AVOIDED = frozenset(
    word
    for row in re.findall(r"^\|(.+)\|$", GLOSSARY, re.MULTILINE)
    for cells in [row.split("|")]
    for word in re.findall(r"`([a-z]+)`", cells[-1] if len(cells) == 4 else cells[0])
    if len(cells) in {2, 4}
)
# Where an avoided word is right: the start of a path, the word, and the reason.
EXCEPTIONS = {
    ("src/postroom/store/migrations/0034_plain_names.sql", "told"): "the old names of renamed columns",
    ("src/postroom/store/", "channel"): "PostgreSQL's own word for what LISTEN and NOTIFY use",
    ("docs/decisions/0005-embedded-server.md", "nobody"): "an account of the operating system",
}
# Idioms and URLs in which an avoided word has another meaning.
IDIOMS = re.compile(
    r"dead[-_ ]letters?|letter[-_ ]spac\w+|letters(, | and )digits|https?://\S+", re.IGNORECASE
)
# Strings there are data: the words of generated messages, and the words that documents use.
DATA = ("mailsim/src/mailsim/samples/", "training/")
RELEASED_MIGRATIONS = "src/postroom/store/migrations/00"


def tracked(*suffixes):
    return [path for path in list_tracked() if path.suffix in suffixes]


SOURCES = [
    path
    for path in tracked(".py")
    if relative(path).startswith(("src/", "mailsim/src/", "chaos/src/", "training/", "bench/"))
]
SCRIPTS = [path for path in tracked("") if relative(path).startswith("scripts/")]
OTHERS = sorted(set(tracked(".py")) - set(SOURCES))


def words_of_name(name):
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", IDIOMS.sub("", name))}


def words_of_text(text):
    return {word.lower() for word in re.findall(r"[A-Za-z]+", IDIOMS.sub("", text))}


def is_allowed(path, word):
    return any(relative(path).startswith(start) and word == allowed for start, allowed in EXCEPTIONS)


def names_in(tree):
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno


def docstrings_in(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text, getattr(node, "lineno", 1)


def prose_in(path):
    """Comments and docstrings, and the strings that are sentences rather than keys."""
    tree = parse(path)
    yield from docstrings_in(tree)
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.string, token.start[0]
    if relative(path).startswith(DATA):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value, node.lineno


def avoided_in(path, found):
    return [
        f"{relative(path)}:{line} says {word!r}"
        for words, line in found
        for word in sorted(words & AVOIDED)
        if not is_allowed(path, word)
    ]


def test_the_glossary_names_words_to_avoid():
    assert {"letter", "enclosure", "paper", "channel", "news", "anew", "told"} <= AVOIDED


@pytest.mark.parametrize("folder", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
def test_class_names_are_unique_within_a_distribution(folder):
    places = defaultdict(list)
    for path in list_modules(folder):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(relative(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_names_and_prose_of_modules_keep_to_the_glossary():
    found = []
    for path in SOURCES:
        names = [(path.stem, 1), *names_in(parse(path))]
        found += avoided_in(path, [(words_of_name(name), line) for name, line in names])
        found += avoided_in(path, [(words_of_text(text), line) for text, line in prose_in(path)])
    assert found == []


def test_names_of_tests_keep_to_the_glossary():
    found = []
    for path in OTHERS:
        functions = [
            (node.name, node.lineno)
            for node in ast.walk(parse(path))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        names = [(path.stem, 1), *functions]
        found += avoided_in(path, [(words_of_name(name), line) for name, line in names])
    assert found == []


def test_pages_documents_migrations_and_scripts_keep_to_the_glossary():
    found = []
    for path in [*tracked(".html", ".md", ".js", ".sql"), *SCRIPTS]:
        released = relative(path).startswith(RELEASED_MIGRATIONS) and path.stem < "0034"
        if path.name != "glossary.md" and not released:
            lines = enumerate(path.read_text().splitlines(), 1)
            found += avoided_in(path, [(words_of_text(line), number) for number, line in lines])
    assert found == []


def test_every_exception_is_needed():
    unused = []
    for start, word in EXCEPTIONS:
        paths = [path for path in tracked(".py", ".html", ".md", ".sql") if relative(path).startswith(start)]
        if not any(word in words_of_text(path.read_text().replace("_", " ")) for path in paths):
            unused.append((start, word))
    assert unused == []
