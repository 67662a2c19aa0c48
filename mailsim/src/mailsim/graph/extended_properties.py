"""What clients store with messages by their own names: MAPI properties and open extensions, and $expand.

Follows "Get singleValueLegacyExtendedProperty", "Get multiValueLegacyExtendedProperty" and "Use open
extensions". The size of a message is the only property that Exchange itself sets here.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from mailsim.graph.errors import GraphError, bad_request
from mailsim.graph.message_json import MessageView

EXTENSION_TYPE = "#microsoft.graph.openTypeExtension"
MAX_EXTENSION_NAME = 250
_OWN_PROPERTIES = frozenset({"id", "extensionName"})
_EXTENSION_PREFIX = "Microsoft.OutlookServices.OpenTypeExtension."
_FILTER = re.compile(r"\$?filter=(.*)", re.IGNORECASE | re.DOTALL)
_TEST = re.compile(r"\(?\s*(?:\w+/)?id\s+eq\s+'((?:[^']|'')+)'\s*\)?", re.IGNORECASE)
_OR = re.compile(r"\s+or\s+", re.IGNORECASE)
_ARRAY_TYPES = "ApplicationTime|Binary|CLSID|Currency|Double|Float|Integer|Long|Short|String|SystemTime"
_TAG = r"(?:0x([0-9a-f]{1,8})|\{[0-9a-f-]{36}\} (?:Name .{1,200}|Id 0x[0-9a-f]{1,8}))"
_ID = re.compile(rf"({_ARRAY_TYPES}|Boolean|Null) {_TAG}", re.IGNORECASE)
_ARRAY_ID = re.compile(rf"(?:{_ARRAY_TYPES})Array {_TAG}", re.IGNORECASE)
_SIZE = 0x0E08  # PidTagMessageSize


def _parse_ids(options: str, name: str) -> list[str]:
    """Return the IDs that the $filter inside an $expand asks for; Graph requires it."""
    given = _FILTER.fullmatch(options)
    tests = [_TEST.fullmatch(part.strip()) for part in _OR.split(given[1])] if given else []
    if not tests or any(test is None for test in tests):
        raise bad_request(f"Expanding {name} needs a $filter by its id.")
    return [test[1].replace("''", "'") for test in tests if test is not None]


def expand(view: MessageView, options: str) -> list[dict[str, Any]]:
    """Return the JSON for $expand=singleValueExtendedProperties."""
    found: list[dict[str, Any]] = []
    for identifier in _parse_ids(options, "singleValueExtendedProperties"):
        named = _ID.fullmatch(identifier)
        if named is not None and named[2] and int(named[2], 16) == _SIZE:
            if named[1].lower() in {"integer", "long"}:
                # Graph writes the number without leading zeros.
                size = len(view.mailbox.raw(view.number))
                found.append({"id": f"{named[1].capitalize()} 0x{_SIZE:x}", "value": str(size)})
        elif stored := view.details.properties.get(identifier.lower()):
            found.append(dict(stored))
    return found


def expand_arrays(view: MessageView, options: str) -> list[dict[str, Any]]:
    """Return the JSON for $expand=multiValueExtendedProperties."""
    arrays = view.details.arrays
    keys = [identifier.lower() for identifier in _parse_ids(options, "multiValueExtendedProperties")]
    return [dict(arrays[key]) for key in keys if key in arrays]


def parse_properties(body: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the extended properties of a message's JSON by ID in lower case."""
    return _parse_list(body.get("singleValueExtendedProperties"), _ID, lambda value: isinstance(value, str))


def parse_arrays(body: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the extended properties with several values by ID in lower case."""
    return _parse_list(body.get("multiValueExtendedProperties"), _ARRAY_ID, _is_array)


def _is_array(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in cast("list[Any]", value))


def _parse_list(
    given: Any, pattern: re.Pattern[str], is_valid: Callable[[Any], bool]
) -> dict[str, dict[str, Any]]:
    properties: dict[str, dict[str, Any]] = {}
    items: list[Any] = (
        [] if given is None else cast("list[Any]", given) if isinstance(given, list) else [None]
    )
    for item in items:
        fields: Mapping[str, Any] = cast("Mapping[str, Any]", item) if isinstance(item, Mapping) else {}
        identifier, value = fields.get("id"), fields.get("value")
        if not isinstance(identifier, str) or not pattern.fullmatch(identifier) or not is_valid(value):
            raise bad_request("The extended property is not valid.", "ErrorInvalidExtendedProperty")
        properties[identifier.lower()] = {"id": identifier, "value": value}
    return properties


def expand_extensions(view: MessageView, options: str) -> list[dict[str, Any]]:
    """Return the JSON for $expand=extensions."""
    keys = [to_extension_key(identifier) for identifier in _parse_ids(options, "extensions")]
    extensions = view.details.extensions
    return [to_extension_json(extensions[key]) for key in keys if key in extensions]


def parse_extensions(body: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the open extensions of a new message's JSON by name in lower case."""
    given = body.get("extensions")
    if not isinstance(given, list | None):
        raise bad_request("The property 'extensions' is not a list.", "ErrorInvalidRequest")
    extensions: dict[str, dict[str, Any]] = {}
    for item in cast("list[Any]", given or []):
        fields: Mapping[str, Any] = cast("Mapping[str, Any]", item) if isinstance(item, Mapping) else {}
        extension = parse_extension(fields)
        key = str(extension["extensionName"]).lower()
        if key in extensions:
            raise extension_exists(extension["extensionName"])
        extensions[key] = extension
    return extensions


def parse_extension(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Check the JSON of a new open extension; return its name and data."""
    name = fields.get("extensionName")
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_EXTENSION_NAME:
        raise bad_request("The property 'extensionName' is required.", "ErrorInvalidRequest")
    given_type = str(fields.get("@odata.type", EXTENSION_TYPE)).lower().lstrip("#")
    if given_type != EXTENSION_TYPE.lower().lstrip("#"):
        raise bad_request("Only open extensions can be added to a message.", "ErrorInvalidRequest")
    return {"extensionName": name, **get_extension_data(fields)}


def get_extension_data(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in fields.items() if name not in _OWN_PROPERTIES and "@odata." not in name
    }


def extension_exists(name: str) -> GraphError:
    return GraphError(409, "ErrorItemSave", f"An extension with name '{name[:100]}' already exists.")


def to_extension_key(name: str) -> str:
    """Return the key of an extension, which clients name with or without the prefix of its ID."""
    return name.lower().removeprefix(_EXTENSION_PREFIX.lower())


def to_extension_json(extension: Mapping[str, Any]) -> dict[str, Any]:
    identifier = f"{_EXTENSION_PREFIX}{extension['extensionName']}"
    return {"@odata.type": EXTENSION_TYPE, "id": identifier, **extension}
