"""Names and prose keep to docs/glossary.md, and a class name means one thing in a distribution."""

import ast
import io
import itertools
import re
import tokenize
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import pytest

from rules.source_tree import ROOT, list_modules, list_tracked, parse, relative

DISTRIBUTIONS = {"postroom": "src", "mailsim": "mailsim/src", "chaos": "chaos/src"}
GLOSSARY = (ROOT / "docs/glossary.md").read_text()


def inflect(word: str) -> set[str]:
    """A word, or a phrase, with the regular endings of nouns and verbs."""
    irregular = (
        {word[:-1] + "ies"} if word.endswith("y") else {word[:-1] + "ves"} if word[-1] == "f" else set()
    )
    return {word, *(word + ending for ending in ("s", "es", "ed", "ing")), *irregular}


# The last column of the terms, and the first one of the words that make poor English.
AVOIDED = frozenset(
    form
    for row in re.findall(r"^\|(.+)\|$", GLOSSARY, re.MULTILINE)
    for cells in [row.split("|")]
    if len(cells) in {2, 4}
    for word in re.findall(r"`([a-z ]+)`", cells[-1] if len(cells) == 4 else cells[0])
    for form in inflect(word)
)
PATTERN = re.compile(rf"\b(?:{'|'.join(sorted(AVOIDED, key=len, reverse=True))})\b")
# Where an avoided word is right: the start of a path, the word, and the reason.
EXCEPTIONS = {
    ("src/postroom/store/migrations/0034_plain_names.sql", "told"): "the old names of renamed columns",
    (
        "src/postroom/store/migrations/0030_lessons_by_party.sql",
        "lessons",
    ): "an applied migration keeps its name",
    ("src/postroom/store/migrations/0060_comments.sql", "lately"): "an applied migration cannot be changed",
    ("src/postroom/store/", "channel"): "PostgreSQL's own word for what LISTEN and NOTIFY use",
    ("tests/store/", "channel"): "PostgreSQL's own word for what LISTEN and NOTIFY use",
    ("docs/decisions/0005-embedded-server.md", "nobody"): "an account of the operating system",
    ("src/postroom/store/embedded/server_account.py", "nobody"): "an account of the operating system",
    ("tests/store/", "nobody"): "an account of the operating system",
    ("src/postroom/documents/", "task"): "what a child of the sandbox is asked to do",
    ("src/postroom/documents/", "tasks"): "what a child of the sandbox is asked to do",
    ("tests/documents/sandbox/", "task"): "what a child of the sandbox is asked to do",
    ("tests/documents/sandbox/", "tasks"): "what a child of the sandbox is asked to do",
    ("tests/mutants.toml", "task"): "code of the sandbox",
    (".importlinter", "tasks"): "modules of the sandbox",
    ("docs/decisions/0014-confinement.md", "tasks"): "modules of the sandbox",
    ("src/postroom/cli/progress.py", "task"): "rich's own word for one line of progress",
    ("src/postroom/web/push_admission.py", "task"): "an attribute of uvicorn",
    ("chaos/src/postroom_chaos/postgres.py", "task"): "a path of Linux",
    ("Makefile", "jobs"): "as in `make --jobs`",
    ("chaos/", "jobs"): "as in `make --jobs`",
    ("scripts/", "jobs"): "as in `make --jobs`",
    ("docs/how-to/metrics.md", "job"): "a key of Prometheus",
    ("docs/how-to/notices.md", "channel"): "Slack's own word",
    ("deploy/helm/", "hook"): "what Helm calls manifests that it applies before the others",
    ("docs/how-to/reverse-proxy.md", "hook"): "an option of certbot",
    ("deploy/helm/", "job"): "a kind of object in Kubernetes",
    ("docs/how-to/kubernetes.md", "job"): "a kind of object in Kubernetes",
    ("mailsim/src/mailsim/graph/", "company"): "a property of a Graph user",
    ("mailsim/src/mailsim/graph/", "job"): "a property of a Graph user",
    ("mailsim/src/mailsim/graph/unsimulated.py", "tasks"): "a path of Graph",
    ("src/postroom/documents/fields/", "company"): "a word that documents and e-invoices use",
    ("src/postroom/documents/kinds/", "company"): "a word that documents use",
}
# Idioms and URLs in which an avoided word has another meaning.
IDIOMS = re.compile(
    r"dead[-_ ]?letters?|letter[-_ ]spac\w+|letters(, | and )digits|asyncio\.(create_)?task|https?://\S+",
    re.IGNORECASE,
)
# Words of asyncio. A module that imports it or contextvars may use them, except in strings for people.
ASYNCIO = {"task", "tasks"}
# Strings there are data: generated messages, the words that documents use, and what tests send and expect.
DATA = ("mailsim/src/mailsim/samples/", "training/", "tests/")
RELEASED_MIGRATIONS = "src/postroom/store/migrations/00"
# Not ours to write: licenses, lists of packages, compressed data. The glossary lists the words.
FOREIGN = (
    "LICENSE",
    "mailsim/LICENSE",
    "docs/glossary.md",
    "requirements/",
    "tests/simulator/referees/locks/",
)
BINARY = {".npz", ".png", ".xz"}
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# Words that contain an avoided one and another word, and are right.
COMPOUNDS = {
    "desktop",
    "excepthook",
    "letterhead",
    "newsletter",
    "newsletters",
    "refill",
    "webhook",
    "webhooks",
}
# A participle is no noun: say what was found, given or known.
PARTICIPLE = re.compile(r"_?([A-Z][a-z]*ed|Done|Found|Given|Held|Kept|Known|Made|Said|Shown|Told)")

FILES = list_tracked()
MODULES = [path for path in FILES if path.suffix == ".py"]
TEXTS = [
    path for path in FILES if path.suffix not in {".py", *BINARY} and not relative(path).startswith(FOREIGN)
]


def find_avoided(text: str) -> set[str]:
    """The avoided words in prose, in a path such as `/messages`, and in a name such as `NewMessage`."""
    words = WORD.findall(IDIOMS.sub(".", text))
    return set(PATTERN.findall(" ".join(words).lower()))


def find_split_phrases(text: str, following: str) -> set[str]:
    """The avoided phrases that begin on one line and end on the next one."""
    found = find_avoided(f"{text} {following}")
    return found.difference(find_avoided(text), find_avoided(following)) if found else found


def find_glued(names: Iterable[str]) -> dict[str, str]:
    """The avoided words that a name joins with another word of these names, as in `joblist`."""
    words = {word.lower() for name in names for word in WORD.findall(name)}
    glued = {
        word: avoided
        for word in words - AVOIDED - COMPOUNDS
        for avoided in AVOIDED
        for rest in (word.removeprefix(avoided), word.removesuffix(avoided))
        if len(rest) > 2 and rest != word and rest in words
    }
    return dict(sorted(glued.items()))


def is_allowed(path: Path, word: str) -> bool:
    return any(relative(path).startswith(start) and word == allowed for start, allowed in EXCEPTIONS)


def names_in(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno
            case (
                ast.alias(asname=str(name))
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                yield name, node.lineno
            case _:
                pass


def docstring_of(node: ast.AST) -> ast.Constant | None:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            return first.value
    return None


def explanations_in(path: Path) -> Iterator[tuple[str, int]]:
    """Docstrings and comments."""
    for node in ast.walk(parse(path)):
        if docstring := docstring_of(node):
            yield str(docstring.value), docstring.lineno
    comments: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.string, token.start[0]
            comments.append(token)
    for first, second in itertools.pairwise(comments):
        if second.start[0] == first.start[0] + 1:
            yield ", ".join(find_split_phrases(first.string, second.string)), first.start[0]


def strings_in(path: Path) -> Iterator[tuple[str, int]]:
    """Sentences, labels, routes and keys; not the strings that are data."""
    if relative(path).startswith(DATA):
        return
    docstrings = {id(docstring_of(node)) for node in ast.walk(parse(path))}
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value, node.lineno


def uses_asyncio(path: Path) -> bool:
    return any(
        isinstance(node, ast.Import | ast.ImportFrom)
        and {getattr(node, "module", None), *(alias.name for alias in node.names)}
        & {"asyncio", "contextvars"}
        for node in ast.walk(parse(path))
    )


def report(path: Path, texts: Iterable[tuple[str, int]], allowed: Collection[str] = ()) -> list[str]:
    return [
        f"{relative(path)}:{line} says {word!r}"
        for text, line in texts
        for word in sorted(find_avoided(text).difference(allowed))
        if not is_allowed(path, word)
    ]


def avoided_in_module(path: Path) -> list[str]:
    if not find_avoided(path.read_text()):
        return []  # most modules, without a look at their syntax trees
    allowed = ASYNCIO if uses_asyncio(path) else ()
    return [
        *report(path, names_in(parse(path)), allowed),
        *report(path, explanations_in(path), allowed),
        *report(path, strings_in(path)),
    ]


def avoided_in_text(path: Path) -> list[str]:
    if relative(path).startswith(RELEASED_MIGRATIONS) and path.stem < "0034":
        return []
    lines = path.read_text().splitlines()
    split = (", ".join(find_split_phrases(*pair)) for pair in itertools.pairwise(lines))
    return report(path, [*zip(lines, itertools.count(1)), *zip(split, itertools.count(1))])


def test_the_glossary_names_words_to_avoid():
    assert {"letter", "enclosure", "paper", "channel", "news", "anew", "told", "job", "bookmark"} <= AVOIDED
    assert {"letters", "hooked", "shelves", "companies", "heeding", "goes on"} <= AVOIDED


@pytest.mark.parametrize(
    "source",
    [
        "class NewsPage: ...",
        "def read(letter): ...",
        "import message as letter",
        "try: ...\nexcept OSError as news: ...",
        "match 1:\n    case letter: ...",
        "match 1:\n    case [*letters]: ...",
        "match 1:\n    case {**letters}: ...",
        'LABEL = "News"',
        'ROUTE = "/letters/{id}"',
        'KEY = "oldBookmarks"',
        "record = dict(jobs=2)",
        "LETTERS_LEFT = 1",
        "# The sync\n# goes on.",
        "# The sync goes\n# on.",
        'LABEL = ("The sync goes"\n " on.")',
        'import asyncio\nLABEL = "maintenance, task"',
        "# Read the letter.",
        'def read():\n    """Read the letter."""',
    ],
)
def test_an_avoided_word_is_found_in_a_module(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rules.source_tree.ROOT", tmp_path)
    path = tmp_path / "module.py"
    path.write_text(source)
    assert len(avoided_in_module(path)) == 1


def test_words_of_asyncio_need_its_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rules.source_tree.ROOT", tmp_path)
    path = tmp_path / "module.py"
    path.write_text("import asyncio\ntask = asyncio.create_task(read())  # ends with the task group")
    assert avoided_in_module(path) == []
    path = tmp_path / "other.py"
    path.write_text("task = find_work()")
    assert len(avoided_in_module(path)) == 1


def test_an_avoided_word_is_found_in_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rules.source_tree.ROOT", tmp_path)
    for text in ('<g id="paper-trail">', '{"jobCount": 1}', ".letters { color: red }", "--no-hooks"):
        path = tmp_path / "text"
        path.write_text(f"first line\n{text}")
        assert len(avoided_in_text(path)) == 1


def test_a_phrase_over_two_lines_is_found_in_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rules.source_tree.ROOT", tmp_path)
    path = tmp_path / "text"
    path.write_text("The sync goes\non until the listing\nis complete.")
    assert avoided_in_text(path) == ["text:1 says 'goes on'"]


def test_an_avoided_word_glued_to_another_word_is_found():
    assert find_glued(["joblist", "list_records", "newsletter", "letter_head"]) == {"joblist": "job"}


def test_files_of_every_kind_are_checked():
    names = {path.name for path in TEXTS}
    assert {
        "Makefile",
        "Containerfile",
        "pyproject.toml",
        ".importlinter",
        "mutants.toml",
        "NOTES.txt",
    } <= names
    assert {path.suffix for path in FILES} - {path.suffix for path in TEXTS} == {".in", ".py", *BINARY}


@pytest.mark.parametrize("folder", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
def test_class_names_are_unique_within_a_distribution(folder: str):
    places = defaultdict[str, list[str]](list)
    for path in list_modules(folder):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(relative(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize("folder", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
def test_class_names_are_nouns(folder: str):
    names = [
        node.name
        for path in list_modules(folder)
        for node in ast.walk(parse(path))
        if isinstance(node, ast.ClassDef)
    ]
    assert [name for name in names if PARTICIPLE.fullmatch(name)] == []


def test_names_of_files_and_folders_keep_to_the_glossary():
    assert [found for path in FILES for found in report(path, [(relative(path), 0)])] == []


def test_no_name_is_glued_from_an_avoided_word():
    paths = [path for folder in DISTRIBUTIONS.values() for path in list_modules(folder)]
    names = {name for path in paths for name, _ in names_in(parse(path))}
    assert find_glued(names.union(map(relative, FILES))) == {}


def test_modules_keep_to_the_glossary():
    assert [found for path in MODULES for found in avoided_in_module(path)] == []


def test_pages_styles_settings_documents_migrations_and_scripts_keep_to_the_glossary():
    assert [found for path in TEXTS for found in avoided_in_text(path)] == []


def test_every_exception_is_needed():
    unused: list[tuple[str, str]] = []
    for start, word in EXCEPTIONS:
        paths = [path for path in [*MODULES, *TEXTS] if relative(path).startswith(start)]
        if not any(word in find_avoided(f"{relative(path)} {path.read_text()}") for path in paths):
            unused.append((start, word))
    assert unused == []
