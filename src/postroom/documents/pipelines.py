"""Pipelines as they are declared: one TOML file, one table each, every fault told at once with its place."""

import tomllib
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from postroom.errors import SettingsError
from postroom.model import FolderRole

# What is neither received mail nor asked for by name.
LEFT_OUT: Final = frozenset({FolderRole.SPAM, FolderRole.TRASH, FolderRole.DRAFTS, FolderRole.SENT})

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=320, to_lower=True)]


def _place(value: str) -> str:
    kind, separator, rest = value.partition("://")
    if (separator and kind in {"s3", "gs"} and rest) or value.startswith("/"):
        return value.rstrip("/")
    raise ValueError("is neither an absolute path of a folder nor a bucket such as gs://my-bucket/inbox")


class Pipeline(BaseModel):
    """A named way of turning accepted mail into documents."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    kind: Annotated[str, StringConstraints(min_length=1)]
    mailboxes: tuple[Pattern, ...] = ()
    folders: tuple[Annotated[str, StringConstraints(min_length=1)], ...] = ()
    senders: tuple[Pattern, ...] = ()
    confirm_above: Annotated[float, Field(ge=0, le=1)] = 0.95
    archive: bool = True
    keep: Literal["blobs", "archive"] = "blobs"
    watch: Annotated[str, AfterValidator(_place)] | None = None
    watch_seconds: Annotated[float, Field(ge=1, le=86400)] = 30
    shared_state: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None
    shared_state_ids: Literal["rest", "immutable"] = "rest"
    shared_state_minutes: Annotated[float, Field(ge=1, le=1440)] = 60

    def takes_mailbox(self, address: str) -> bool:
        return not self.mailboxes or any(fnmatchcase(address.lower(), each) for each in self.mailboxes)

    def takes_sender(self, address: str) -> bool:
        return not self.senders or any(fnmatchcase(address.lower(), each) for each in self.senders)

    def takes_folder(self, names: Collection[str], roles: Collection[FolderRole]) -> bool:
        """Whether mail there is taken: by name or role where asked for, else all that was received."""
        if not self.folders:
            return not LEFT_OUT & set(roles)
        asked = {each.lower() for each in self.folders}
        return bool(asked & {each.lower() for each in names} or asked & {str(role) for role in roles})


Pipelines = Mapping[str, Pipeline]


def shipped() -> str:
    return (files("postroom.documents") / "pipelines.toml").read_text("utf-8")


def load(path: Path | None, *, kinds: Collection[str]) -> Pipelines:
    """The pipelines of a file, else those that ship."""
    if path is None:
        return parse(shipped(), place="the shipped pipelines", kinds=kinds)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError(
            f"The pipelines file {path} cannot be read: {why}. Correct POSTROOM_PIPELINES."
        ) from error
    return parse(text, place=str(path), kinds=kinds)


def parse(text: str, *, place: str, kinds: Collection[str]) -> Pipelines:
    """Every pipeline of the text, or one error that lists everything wrong with it."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{place} is not TOML: {error}.") from error
    faults: list[str] = []
    found: dict[str, Pipeline] = {}
    for name, table in tables.items():
        try:
            found[name] = _pipeline(name, table, kinds)
        except ValueError as error:
            faults.extend(_faults(name, error))
    if not tables:
        faults.append('it declares no pipeline: write a table such as [invoices] with kind = "invoice"')
    if faults:
        raise SettingsError("\n  ".join([f"{place} has faults:", *faults]))
    return found


def _pipeline(name: str, table: Any, kinds: Collection[str]) -> Pipeline:
    if not isinstance(table, dict):
        raise ValueError(f"{name}: is a value, not a table; begin with a line [{name}]")  # noqa: TRY004  # a fault of the file
    pipeline = Pipeline.model_validate({"name": name, **table})
    if pipeline.kind not in kinds:
        raise ValueError(f"{name}.kind: {pipeline.kind!r} is no kind; there are {', '.join(sorted(kinds))}")
    return pipeline


def _faults(name: str, error: ValueError) -> list[str]:
    if not isinstance(error, ValidationError):
        return [str(error)]
    return [
        f"{'.'.join([name, *(str(part) for part in each['loc'])])}: {_words(each['type'], each['msg'])}"
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def _words(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        keys = sorted(set(Pipeline.model_fields) - {"name"})
        return f"is not a key of a pipeline; there are {', '.join(keys)}"
    return "is missing" if kind == "missing" else message[:1].lower() + message[1:]
