"""Pipelines: what each accepts and does, and how they are loaded from a TOML file.

All errors of a file are reported at once. The steps of a pipeline are in `flow.documents`.
"""

import tomllib
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from postroom.errors import SettingsError
from postroom.model import FolderRole

# Excluded unless a pipeline names them: they hold no received mail.
EXCLUDED_ROLES: Final = frozenset({FolderRole.SPAM, FolderRole.TRASH, FolderRole.DRAFTS, FolderRole.SENT})

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=320, to_lower=True)]


def _validate_watch_location(value: str) -> str:
    kind, separator, rest = value.partition("://")
    if (separator and kind in {"s3", "gs"} and rest) or value.startswith("/"):
        return value.rstrip("/")
    raise ValueError("must be an absolute path of a folder or a bucket such as gs://my-bucket/inbox")


class Pipeline(BaseModel):
    """A named path from accepted messages to documents and records."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Name
    kind: Annotated[str, StringConstraints(min_length=1)]
    # Not strict: TOML has lists, but no tuples.
    mailboxes: Annotated[tuple[Pattern, ...], Field(strict=False)] = ()
    folders: Annotated[tuple[Annotated[str, StringConstraints(min_length=1)], ...], Field(strict=False)] = ()
    senders: Annotated[tuple[Pattern, ...], Field(strict=False)] = ()
    confirm_above: Annotated[float, Field(ge=0, le=1)] = 0.95
    archive: bool = True
    keep: Literal["blobs", "archive"] = "blobs"
    watch: Annotated[str, AfterValidator(_validate_watch_location)] | None = None
    watch_seconds: Annotated[float, Field(ge=1, le=86400)] = 30
    shared_state: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None
    shared_state_ids: Literal["rest", "immutable"] = "rest"
    shared_state_minutes: Annotated[float, Field(ge=1, le=1440)] = 60

    def takes_mailbox(self, address: str) -> bool:
        return not self.mailboxes or any(fnmatchcase(address.lower(), pattern) for pattern in self.mailboxes)

    def takes_sender(self, address: str) -> bool:
        return not self.senders or any(fnmatchcase(address.lower(), pattern) for pattern in self.senders)

    def takes_folder(self, names: Collection[str], roles: Collection[FolderRole]) -> bool:
        """Check a message's folders: by name or role if the pipeline names any, else received mail only."""
        if not self.folders:
            return not EXCLUDED_ROLES & set(roles)
        accepted = {folder.lower() for folder in self.folders}
        return bool(accepted & {name.lower() for name in names} or accepted & {str(role) for role in roles})


Pipelines = Mapping[str, Pipeline]


def read_default_file() -> str:
    return (files("postroom.documents") / "pipelines.toml").read_text("utf-8")


def load(path: Path | None, *, kinds: Collection[str]) -> Pipelines:
    """Load the pipelines of a file, else the built-in ones."""
    if path is None:
        return parse(read_default_file(), place="the built-in pipelines file", kinds=kinds)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError(
            f"The pipelines file {path} cannot be read: {why}. Correct POSTROOM_PIPELINES."
        ) from error
    return parse(text, place=str(path), kinds=kinds)


def require_archive(pipelines: Pipelines, *, has_disk_blobs: bool, has_archive: bool) -> None:
    """Raise SettingsError if a pipeline keeps its bytes only until they are archived, and cannot."""
    for pipeline in pipelines.values():
        if pipeline.keep == "archive" and not (has_disk_blobs and has_archive and pipeline.archive):
            raise SettingsError(
                f'The pipeline {pipeline.name} has keep = "archive": its bytes stay on this machine until'
                " they are archived. Set POSTROOM_BLOBS=disk, name an archive with POSTROOM_ARCHIVE, and set"
                " `archive = true` in the pipeline."
            )


def parse(text: str, *, place: str, kinds: Collection[str]) -> Pipelines:
    """Parse all pipelines, or raise one SettingsError that lists every error."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{place} is not valid TOML: {error}.") from error
    faults: list[str] = []
    pipelines: dict[str, Pipeline] = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            faults.append(f"{name}: must be a table; start it with a line [{name}]")
            continue
        declared = cast("dict[str, Any]", table)
        faults.extend(_find_kind_errors(name, declared, kinds))
        try:
            pipelines[name] = Pipeline.model_validate({**declared, "name": name})
        except ValidationError as error:
            faults.extend(_to_messages(name, error))
    if not tables:
        faults.append('it declares no pipeline: add a table such as [invoices] with kind = "invoice"')
    if faults:
        raise SettingsError("\n  ".join([f"{place} has errors:", *faults]))
    return pipelines


def _find_kind_errors(name: str, table: Mapping[str, Any], kinds: Collection[str]) -> Iterator[str]:
    """Yield errors that the model cannot find: unknown kinds, and a `name` key."""
    kind = table.get("kind")
    if isinstance(kind, str) and kind and kind not in kinds:
        yield f"{name}.kind: {kind!r} is not a document kind; installed: {', '.join(sorted(kinds))}"
    if "name" in table:
        yield f"{name}.name: {_describe_error('extra_forbidden', '')}"


def _to_messages(name: str, error: ValidationError) -> list[str]:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return [
        f"{'.'.join([name, *map(str, detail['loc'])])}: {_describe_error(detail['type'], detail['msg'])}"
        for detail in details
    ]


def _describe_error(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        keys = sorted(set(Pipeline.model_fields) - {"name"})
        return f"is not a key of a pipeline; valid keys: {', '.join(keys)}"
    return _ERROR_TEXTS.get(kind) or message[:1].lower() + message[1:]


_ERROR_TEXTS: Final = {
    "missing": "is missing",
    "tuple_type": 'must be a list such as ["one", "two"]',
    "string_type": 'must be text in quotes, such as "text"',
    "bool_type": "must be true or false, without quotes",
    "float_type": "must be a number, without quotes",
    "string_pattern_mismatch": "must be at most 40 of a-z, 0-9 and hyphens, starting with a-z",
}
