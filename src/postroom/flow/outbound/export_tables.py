"""The tables of an export: their Parquet schemas, and how a row becomes one. Described in docs/parquet.md."""

import dataclasses
import json
import types
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from postroom.documents.kinds import kind_registry
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.flow.outbound.parquet_files import arrow
from postroom.store import export_rows
from postroom.store.connection import Connection
from postroom.store.export_rows import ExportPage, Row

_PRECISION: Final = 38
_SCALE: Final = 10
_TEXT: Final = arrow.string()
_NUMBER: Final = arrow.int64()
_FLAG: Final = arrow.bool_()
_TIME: Final = arrow.timestamp("us", tz="UTC")
_TEXTS: Final = arrow.list_(_TEXT)
_PEOPLE: Final = arrow.list_(arrow.struct({"name": _TEXT, "address": _TEXT}))
_ARROW_TYPES: Final[Mapping[Any, Any]] = {
    str: _TEXT,
    int: _NUMBER,
    float: arrow.float64(),
    bool: _FLAG,
    date: arrow.date32(),
    datetime: _TIME,
    Decimal: arrow.decimal128(_PRECISION, _SCALE),
}
Columns = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExportTable:
    """A table: its columns, the query of a page, and what to change in a row before it is written."""

    name: str
    columns: Columns
    list_rows: Callable[[Connection, ExportPage], Awaitable[list[Row]]]
    convert: Callable[[Row], Row] = lambda row: row


EVENT_COLUMNS: Final[Columns] = {
    "position": _NUMBER,
    "id": _NUMBER,
    "kind": _TEXT,
    "entity_type": _TEXT,
    "entity_id": _TEXT,
    "data": _TEXT,
    "created_at": _TIME,
}
_MESSAGE_COLUMNS: Final[Columns] = {
    "position": _NUMBER,
    "id": _NUMBER,
    "mailbox_id": _TEXT,
    "mailbox": _TEXT,
    "provider": _TEXT,
    "thread_id": _NUMBER,
    "folder_id": _NUMBER,
    "folder": _TEXT,
    "provider_message_id": _TEXT,
    "internet_message_id": _TEXT,
    "from_name": _TEXT,
    "from_address": _TEXT,
    "to_recipients": _PEOPLE,
    "cc_recipients": _PEOPLE,
    "bcc_recipients": _PEOPLE,
    "subject": _TEXT,
    "sent_at": _TIME,
    "received_at": _TIME,
    "size": _NUMBER,
    "labels": _TEXTS,
    "categories": _TEXTS,
    "importance": _TEXT,
    "is_read": _FLAG,
    "is_flagged": _FLAG,
    "is_draft": _FLAG,
    "is_newsletter": _FLAG,
    "is_automated": _FLAG,
    "has_attachments": _FLAG,
    "revision": _NUMBER,
    "created_at": _TIME,
    "updated_at": _TIME,
    "deleted_at": _TIME,
    "left_at": _TIME,
}
_MAIL_EVENT_COLUMNS: Final[Columns] = {
    "position": _NUMBER,
    "id": _NUMBER,
    "mailbox_id": _TEXT,
    "message_id": _NUMBER,
    "revision": _NUMBER,
    "kind": _TEXT,
    "from_folder_id": _NUMBER,
    "to_folder_id": _NUMBER,
    "labels_added": _TEXTS,
    "labels_removed": _TEXTS,
    "changed": _TEXT,
    "observed_at": _TIME,
}
_DOCUMENT_COLUMNS: Final[Columns] = {
    "position": _NUMBER,
    "id": _TEXT,
    "pipeline": _TEXT,
    "kind": _TEXT,
    "state": _TEXT,
    "state_since": _TIME,
    "media_type": _TEXT,
    "sha256": _TEXT,
    "size": _NUMBER,
    "skip_reason": _TEXT,
    "last_error": _TEXT,
    "record_id": _TEXT,
    "archive_path": _TEXT,
    "archived_at": _TIME,
    "created_at": _TIME,
    "part_of": _TEXT,
    "part_pages": _TEXT,
    "source": _TEXT,
    "message_id": _NUMBER,
    "part": _TEXT,
    "sender": _TEXT,
    "subject": _TEXT,
    "file_name": _TEXT,
    "received_at": _TIME,
}
_RECORD_COLUMNS: Final[Columns] = {
    "position": _NUMBER,
    "id": _TEXT,
    "kind": _TEXT,
    "pipeline": _TEXT,
    "key": _TEXT,
    "state": _TEXT,
    "version": _NUMBER,
    "merged_into": _TEXT,
    "order_id": _TEXT,
    "order_reference": _TEXT,
    "confirmed_by": _TEXT,
    "confirmed_at": _TIME,
    "fields": _TEXT,
}


def build_tables() -> tuple[ExportTable, ...]:
    """All tables except `events`. Records have a column with typed values for each installed kind."""
    kinds = {
        name: kind
        for kind in kind_registry.list_installed().values()
        if (name := kind.name.replace("-", "_")) not in _RECORD_COLUMNS
    }
    record_columns = _RECORD_COLUMNS | {
        name: arrow.struct({field: _find_arrow_type(hint) for field, hint in _find_hints(kind).items()})
        for name, kind in kinds.items()
    }

    def convert_record(row: Row) -> Row:
        values = {
            name: _convert_fields(row["fields"], kind) if row["kind"] == kind.name else None
            for name, kind in kinds.items()
        }
        return row | values | {"fields": json.dumps(row["fields"], ensure_ascii=False)}

    return (
        ExportTable("messages", _MESSAGE_COLUMNS, export_rows.list_messages),
        ExportTable("mail_events", _MAIL_EVENT_COLUMNS, export_rows.list_mail_events),
        ExportTable("documents", _DOCUMENT_COLUMNS, export_rows.list_documents),
        ExportTable("records", record_columns, export_rows.list_records, convert_record),
    )


def _find_hints(kind: DocumentKind) -> dict[str, Any]:
    """The type of each field, without its FieldSpec and `| None`."""
    return {name: _strip_none(hint) for name, hint in get_type_hints(kind.model).items()}


def _strip_none(hint: Any) -> Any:
    if get_origin(hint) in {Union, types.UnionType}:
        others = [each for each in get_args(hint) if each is not type(None)]
        return others[0] if len(others) == 1 else str
    return hint


def _find_arrow_type(hint: Any) -> Any:
    hint = _strip_none(hint)
    if get_origin(hint) in {tuple, list}:
        return arrow.list_(_find_arrow_type(get_args(hint)[0]))
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        return arrow.struct({name: _find_arrow_type(each) for name, each in hints.items()})
    return _ARROW_TYPES.get(hint, _TEXT)


def _convert_fields(fields: Mapping[str, Any], kind: DocumentKind) -> dict[str, Any]:
    """The values of a record in the types of its kind. Those that do not fit are only in `fields`."""
    return {name: _convert_value(fields.get(name), hint) for name, hint in _find_hints(kind).items()}


def _convert_value(value: Any, hint: Any) -> Any:
    if value is None:
        return None
    try:
        return _to_arrow_value(msgspec.convert(value, hint, strict=False))
    except (msgspec.ValidationError, ArithmeticError):
        return None


def _to_arrow_value(value: Any) -> Any:
    if isinstance(value, Decimal):
        _require_exact(value)
        return value
    if isinstance(value, tuple | list):
        return [_to_arrow_value(each) for each in cast("Sequence[Any]", value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value))
        return {name: _to_arrow_value(getattr(value, name)) for name in names}
    return value


def _require_exact(value: Decimal) -> None:
    """Raise ArithmeticError unless the columns hold this number with all its digits."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent < -_SCALE or len(digits) + exponent > _PRECISION - _SCALE:
        raise ArithmeticError
