"""Objects of listed classes as JSON and back, with shared references.

Every mutable object is in a table and referred to by its position, so that two references to one object stay
so. Only the listed classes are made, and only their own fields are set: a file cannot name anything else.
"""

import base64
import math
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime
from random import Random
from typing import Any, cast

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from mailsim.errors import InvalidRequest
from mailsim.state.type_check import has_type, read_field_types

Node = Any  # JSON
_PEM = serialization.Encoding.PEM
_MAX_DEPTH = 100


class DamagedState(InvalidRequest):
    """The file does not describe a simulation."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the saved state is damaged: {why}; save it again with GET /_sim/state")


@dataclass(frozen=True, slots=True)
class SavedClass:
    """A class whose objects are saved by field.

    `make` creates an object from its decoded fields; without it, the fields are set on an empty object.
    """

    type: type[Any]
    names: tuple[str, ...]
    make: Callable[[dict[str, Any]], Any] | None = None
    skipped: frozenset[str] = frozenset()  # fields that are not saved, with their default


def describe(kind: type[Any], *skipped: str) -> SavedClass:
    """Describe a dataclass, struct or named tuple by its own fields."""
    if is_dataclass(kind):
        names = [field.name for field in fields(kind) if field.name not in skipped]
        return SavedClass(kind, tuple(names), skipped=frozenset(skipped))
    if issubclass(kind, msgspec.Struct):
        return SavedClass(kind, kind.__struct_fields__, lambda values: kind(**values))
    return SavedClass(kind, cast("Any", kind)._fields, lambda values: kind(**values))


def _to_private_pem(key: rsa.RSAPrivateKey) -> str:
    plain = serialization.NoEncryption()
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, plain).decode()


def _to_public_pem(key: rsa.RSAPublicKey) -> str:
    return key.public_bytes(_PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


def _load_private(pem: str) -> rsa.RSAPrivateKey:
    key = serialization.load_pem_private_key(pem.encode(), None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise DamagedState("a key is not an RSA key")
    return key


def _load_public(pem: str) -> rsa.RSAPublicKey:
    key = serialization.load_pem_public_key(pem.encode())
    if not isinstance(key, rsa.RSAPublicKey):
        raise DamagedState("a key is not an RSA key")
    return key


def _load_random(numbers: list[int]) -> Random:
    random = Random()
    random.setstate((3, tuple(numbers), None))
    return random


# Leaves: type, tag, to JSON, from JSON.
_LEAVES: tuple[tuple[type[Any], str, Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    (bytes, "bytes", lambda value: base64.b64encode(value).decode(), base64.b64decode),
    (datetime, "datetime", lambda value: value.isoformat(), datetime.fromisoformat),
    (rsa.RSAPrivateKey, "private key", _to_private_pem, _load_private),
    (rsa.RSAPublicKey, "public key", _to_public_pem, _load_public),
    (
        x509.Certificate,
        "certificate",
        lambda value: value.public_bytes(_PEM).decode(),
        lambda pem: x509.load_pem_x509_certificate(pem.encode()),
    ),
)
_READERS = {tag: read for _, tag, _, read in _LEAVES}
_SEQUENCES: dict[str, type[Any]] = {"list": list, "set": set, "deque": deque}


class GraphWriter:
    """Encodes values; `objects` is the table of what they refer to."""

    def __init__(self, classes: Iterable[SavedClass]) -> None:
        self._classes = {saved.type: saved for saved in classes}
        self._positions: dict[int, int] = {}
        self._kept: list[Any] = []  # keeps the objects alive, so that no ID is reused
        self.objects: list[Node] = []

    def encode(self, value: Any) -> Node:
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else ["float", repr(value)]
        saved = self._classes.get(cast("type[Any]", type(value)))
        if saved is None and isinstance(value, tuple | frozenset):
            items = cast("Iterable[Any]", value)
            tag = "tuple" if isinstance(value, tuple) else "frozenset"
            ordered = items if tag == "tuple" else sorted(items)
            return [tag, *(self.encode(item) for item in ordered)]
        for kind, tag, write, _ in _LEAVES:
            if isinstance(value, kind):
                return [tag, write(value)]
        return ["object", self._refer(value, saved)]

    def _refer(self, value: Any, saved: SavedClass | None) -> int:
        position = self._positions.get(id(value))
        if position is None:
            position = self._positions[id(value)] = len(self.objects)
            self._kept.append(value)
            self.objects.append(None)
            self.objects[position] = self._describe(value, saved)
        return position

    def _describe(self, value: Any, saved: SavedClass | None) -> Node:
        if saved is not None:
            return [saved.type.__name__, {name: self.encode(getattr(value, name)) for name in saved.names}]
        if isinstance(value, dict):
            pairs = cast("dict[Any, Any]", value).items()
            tag = "counter" if isinstance(value, Counter) else "dict"
            return [tag, [[self.encode(key), self.encode(item)] for key, item in pairs]]
        for tag, kind in _SEQUENCES.items():
            if isinstance(value, kind):
                items = cast("Iterable[Any]", value)
                return [tag, [self.encode(item) for item in (sorted(items) if tag == "set" else items)]]
        if isinstance(value, array):
            numbers = cast("array[int]", value)
            return ["array", numbers.typecode, base64.b64encode(numbers.tobytes()).decode()]
        if isinstance(value, bytearray):
            return ["bytearray", base64.b64encode(value).decode()]
        if isinstance(value, Random):
            return ["random", list(value.getstate()[1])]
        raise TypeError(f"{type(value).__name__} is not listed as a class of the saved state")


class GraphReader:
    """Decodes values that a GraphWriter encoded. Raises DamagedState for anything else."""

    def __init__(self, classes: Iterable[SavedClass], objects: list[Node]) -> None:
        self._classes = {saved.type.__name__: saved for saved in classes}
        self._objects = objects
        self._made: dict[int, Any] = {}
        self._depth = 0

    def decode(self, node: Node) -> Any:
        if not isinstance(node, list):
            if isinstance(node, dict):
                raise DamagedState("a value is an object")
            return node
        match cast("list[Any]", node):
            case ["object", int(position)]:
                return self._get(position)
            case ["tuple", *items]:
                return tuple(self.decode(item) for item in items)
            case ["frozenset", *items]:
                return frozenset(self.decode(item) for item in items)
            case ["float", str(text)]:
                return float(text)
            case [str(tag), str(text)] if tag in _READERS:
                return _READERS[tag](text)
            case _:
                raise DamagedState("a value has an unknown form")

    def check_types(self) -> None:
        """Raise DamagedState if a field of an object does not have its declared type.

        Call it after everything was decoded: objects refer to each other in circles.
        """
        for position, made in self._made.items():
            saved = self._classes.get(type(made).__name__)
            if saved is None:
                continue
            for name, declared in read_field_types(saved.type).items():
                if name in saved.names and not has_type(getattr(made, name), declared):
                    raise DamagedState(f"object {position} ({saved.type.__name__}) has a wrong {name}")

    def _get(self, position: int) -> Any:
        if position in self._made:
            return self._made[position]
        if not 0 <= position < len(self._objects) or self._depth > _MAX_DEPTH:
            raise DamagedState(f"object {position} does not exist or is nested too deeply")
        self._depth += 1
        try:
            return self._make(position, self._objects[position])
        finally:
            self._depth -= 1

    def _make(self, position: int, node: Node) -> Any:
        match cast("list[Any]", node):
            case ["dict" | "counter" as tag, pairs]:
                made: dict[Any, Any] = Counter() if tag == "counter" else {}
                self._made[position] = made
                for key, item in pairs:
                    made[self.decode(key)] = self.decode(item)
            case ["list" | "set" | "deque" as tag, items]:
                made_items = self._made[position] = _SEQUENCES[tag]()
                add = made_items.add if tag == "set" else made_items.append
                for item in items:
                    add(self.decode(item))
            case ["array", "q" | "I" as typecode, str(text)]:
                numbers = array("q") if typecode == "q" else array("I")
                numbers.frombytes(base64.b64decode(text))
                self._made[position] = numbers
            case ["bytearray", str(text)]:
                self._made[position] = bytearray(base64.b64decode(text))
            case ["random", state]:
                self._made[position] = _load_random(state)
            case [str(name), values] if name in self._classes and isinstance(values, dict):
                self._make_object(position, self._classes[name], cast("dict[str, Node]", values))
            case _:
                raise DamagedState(f"object {position} is of an unknown class")
        return self._made[position]

    def _make_object(self, position: int, saved: SavedClass, values: Mapping[str, Node]) -> None:
        unknown = values.keys() - set(saved.names)
        if unknown:
            raise DamagedState(f"{saved.type.__name__} has no field {min(unknown)}")
        if saved.make is not None:
            self._made[position] = saved.make({name: self.decode(node) for name, node in values.items()})
            return
        made = self._made[position] = object.__new__(saved.type)
        missing = set(saved.names) - values.keys()
        for name, value in (_get_defaults(saved, missing | saved.skipped)).items():
            object.__setattr__(made, name, value)
        for name, node in values.items():
            object.__setattr__(made, name, self.decode(node))


def _get_defaults(saved: SavedClass, names: set[str]) -> dict[str, Any]:
    """Return the defaults of fields that the file lacks: an older mailsim did not have them."""
    defaults: dict[str, Any] = {}
    for field in fields(saved.type) if is_dataclass(saved.type) else ():
        if field.name in names:
            if field.default_factory is not MISSING:
                defaults[field.name] = field.default_factory()
            elif field.default is not MISSING:
                defaults[field.name] = field.default
    if absent := names - defaults.keys():
        raise DamagedState(f"{saved.type.__name__} lacks the field {min(absent)}")
    return defaults
