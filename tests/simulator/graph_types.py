"""The entity types of Microsoft Graph with their properties.

They come from Microsoft's OpenAPI if it is available next to the repository. Otherwise, and for derived types
that the OpenAPI leaves out, they come from the models of msgraph-sdk.
"""

import dataclasses
import enum
import functools
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

SPECS = Path(__file__).parents[3] / "shared" / "specs"
_PREFIX = "microsoft.graph."
_PLAIN = {
    "str": "text", "bool": "bool", "int": "number", "float": "number", "bytes": "binary",
    "datetime.time": "text",
}  # fmt: skip
_ANNOTATION = re.compile(r"Optional\[(list\[)?([\w.]+)\]*")


@dataclass(frozen=True)
class Property:
    """`kind`: text, bool, number, binary, date, enum, or the name of a type."""

    kind: str
    many: bool = False
    nullable: bool = True
    values: frozenset[str] = frozenset()


@functools.cache
def document() -> dict[str, Any] | None:
    """Return both files of the OpenAPI as one document, or None if they are not available."""
    files = sorted(SPECS.glob("graph-*.yml"))
    if not files:
        return None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    joined: dict[str, Any] = {"paths": {}, "schemas": {}, "responses": {}}
    for file in files:
        read = yaml.load(file.read_text(), loader)
        joined["paths"] |= read["paths"]
        joined["schemas"] |= read["components"]["schemas"]
        joined["responses"] |= read["components"]["responses"]
    return joined


@functools.cache
def properties(name: str) -> dict[str, Property]:
    """Return every property of a type, inherited ones included."""
    known = document()
    if known is not None and _PREFIX + name in known["schemas"]:
        return dict(_from_schema(known["schemas"][_PREFIX + name]))
    return _from_model(model(name))


def is_a(name: str, wanted: str) -> bool:
    return name == wanted or any(parent.__name__ == _class(wanted) for parent in model(name).__mro__)


# From the OpenAPI


def _from_schema(schema: dict[str, Any]) -> Iterator[tuple[str, Property]]:
    if "$ref" in schema:
        schema = _target(schema)
    for part in schema.get("allOf", ()):
        yield from _from_schema(part)
    for name, inner in schema.get("properties", {}).items():
        yield name, _property(inner)


def _target(schema: dict[str, Any]) -> dict[str, Any]:
    known = document()
    assert known is not None
    return known["schemas"][schema["$ref"].rpartition("/")[2]]


def _property(schema: dict[str, Any]) -> Property:
    if schema.get("type") == "array":
        return dataclasses.replace(_property(schema["items"]), many=True, nullable=False)
    nullable = schema.get("nullable", False)
    if "$ref" in schema:
        target = _target(schema)
        if "enum" in target:
            return Property("enum", values=frozenset(target["enum"]))
        return Property(schema["$ref"].rpartition("/")[2].removeprefix(_PREFIX))
    kinds = {"string": "text", "boolean": "bool", "number": "number", "integer": "number"}
    kind = kinds[schema["type"]]
    if kind == "text" and schema.get("format") == "date-time":
        kind = "date"
    if kind == "text" and schema.get("format") == "base64url":
        kind = "binary"
    return Property(kind, nullable=nullable)


# From the SDK


def _class(name: str) -> str:
    return name.rpartition(".")[2][:1].upper() + name.rpartition(".")[2][1:]


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


@functools.cache
def model(name: str) -> type:
    folder, _, short = name.rpartition(".")
    path = f"{_snake(folder)}." if folder else ""
    if folder == "ODataErrors":
        path = "o_data_errors."
    return getattr(importlib.import_module(f"msgraph.generated.models.{path}{_snake(short)}"), _class(short))


def _from_model(cls: type) -> dict[str, Property]:
    """Derive the properties from the dataclass fields; calling the model would load a thousand others."""
    own = {"additional_data", "backing_store", "odata_type"}
    return {
        _camel(field.name): _annotated(str(field.type), cls)
        for field in dataclasses.fields(cls)
        if field.name not in own
    }


def _camel(name: str) -> str:
    head, *rest = name.strip("_").split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


def _annotated(text: str, cls: type) -> Property:
    match = _ANNOTATION.fullmatch(text)
    assert match, text
    many, inner = bool(match[1]), match[2]
    if inner in _PLAIN:
        return Property(_PLAIN[inner], many)
    if inner == "datetime.datetime":
        return Property("date", many)
    target = _imported(inner, cls)
    if isinstance(target, type) and issubclass(target, enum.Enum):
        return Property("enum", many, values=frozenset(str(one.value) for one in target))
    return Property(inner[:1].lower() + inner[1:], many)


def _imported(name: str, cls: type) -> Any:
    """Return the class of a property, or None for the few in modules with irregular names."""
    for parent in cls.__mro__:
        package = parent.__module__.rpartition(".")[0]
        if package.startswith("msgraph."):
            try:
                return getattr(importlib.import_module(f"{package}.{_snake(name)}"), name)
            except ModuleNotFoundError:
                continue
    return None
