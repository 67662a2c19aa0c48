"""The files of the repository and their syntax trees, each parsed once for all rules."""

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def list_tracked() -> tuple[Path, ...]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    paths = [ROOT / name for name in listed.decode().split("\0") if name]
    return tuple(sorted(path for path in paths if path.is_file() and not path.is_symlink()))


def list_modules(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), relative(path))
