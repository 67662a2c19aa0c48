"""The mailboxSettings routes of Graph: get all settings or one, and change them.

The settings have no effect on mail: no automatic reply is sent.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from mailsim.graph import entity_types
from mailsim.graph.errors import bad_request, no_such_path, unknown_property
from mailsim.graph.request import GraphCall, GraphResponse
from mailsim.graph.time_zones import is_time_zone, unknown_time_zone

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_PATTERNS = {
    "text": re.compile(r".*", re.DOTALL),
    "date": re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,7})?)?Z?)?", re.ASCII),
    "time": re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,7})?", re.ASCII),
}
_MOMENT = {"dateTime": "date", "timeZone": "zone"}
# The writable settings: a kind of string, "days", allowed values, or the properties of an object.
_WRITABLE: dict[str, Any] = {
    "timeZone": "zone",
    "dateFormat": "text",
    "timeFormat": "text",
    "delegateMeetingMessageDeliveryOptions": (
        "sendToDelegateAndInformationToPrincipal",
        "sendToDelegateAndPrincipal",
        "sendToDelegateOnly",
    ),
    "language": {"locale": "text", "displayName": "text"},
    "automaticRepliesSetting": {
        "status": ("disabled", "alwaysEnabled", "scheduled"),
        "externalAudience": ("none", "contactsOnly", "all"),
        "scheduledStartDateTime": _MOMENT,
        "scheduledEndDateTime": _MOMENT,
        "internalReplyMessage": "text",
        "externalReplyMessage": "text",
    },
    "workingHours": {
        "daysOfWeek": "days",
        "startTime": "time",
        "endTime": "time",
        "timeZone": {"name": "zone"},
    },
}


def _get_settings(call: GraphCall) -> dict[str, Any]:
    now = call.graph.sim.clock.now().astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    defaults = {
        "archiveFolder": call.ids.folder_id("archive"),
        "timeZone": "UTC",
        "delegateMeetingMessageDeliveryOptions": "sendToDelegateOnly",
        "dateFormat": "M/d/yyyy",
        "timeFormat": "h:mm tt",
        "userPurpose": "user",
        "automaticRepliesSetting": {
            "status": "disabled",
            "externalAudience": "all",
            "internalReplyMessage": "",
            "externalReplyMessage": "",
            "scheduledStartDateTime": _format_moment(now),
            "scheduledEndDateTime": _format_moment(now + timedelta(days=1)),
        },
        "language": {"locale": "en-US", "displayName": "English (United States)"},
        "workingHours": {
            "daysOfWeek": list(_DAYS[:5]),
            "startTime": "08:00:00.0000000",
            "endTime": "17:00:00.0000000",
            "timeZone": {"name": "UTC"},
        },
    }
    return _merge(defaults, call.graph.profile(call.mailbox).settings)


def _format_moment(moment: datetime) -> dict[str, str]:
    return {"dateTime": f"{moment:%Y-%m-%dT%H:%M:%S}.0000000", "timeZone": "UTC"}


def _merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(old)
    for name, value in new.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = _merge(merged[name], cast("Mapping[str, Any]", value)) if both else value
    return merged


async def get(call: GraphCall) -> GraphResponse:
    query = call.query(entity_types.MAILBOX_SETTINGS)
    settings = _get_settings(call)
    if query.select is not None:
        settings = {name: settings[name] for name in settings if name in query.select}
    return _response(call, settings)


async def get_one(call: GraphCall) -> GraphResponse:
    """Return one setting: an object as it is, a string as `value`."""
    settings = _get_settings(call)
    name = next((name for name in settings if name.lower() == call.names[0].lower()), None)
    if name is None:
        raise no_such_path(call.names[0][:100])
    value: Any = settings[name]
    shown = {"value": value} if isinstance(value, str) else cast("dict[str, Any]", value)
    return _response(call, shown, f"/{name}")


async def update(call: GraphCall) -> GraphResponse:
    """Change the given settings and return them."""
    changes = {name: value for name, value in call.json().items() if not name.startswith("@odata.")}
    _check(changes, _WRITABLE)
    if "locale" in changes.get("language", ()):
        # The name of another locale is not known here; the former one would be wrong.
        changes["language"] = {"displayName": None, **changes["language"]}
    profile = call.graph.profile(call.mailbox)
    profile.settings = _merge(profile.settings, changes)
    settings = _get_settings(call)
    return _response(call, {name: settings[name] for name in settings if name in changes})


def _check(changes: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if name not in known:
            if name in entity_types.MAILBOX_SETTINGS.types:
                raise bad_request(f"The property '{name}' is read-only.", "ErrorInvalidRequest")
            raise unknown_property(name[:100], "mailboxSettings")
        expected = known[name]
        if isinstance(expected, Mapping):
            is_valid = isinstance(value, Mapping)
        elif expected == "days":
            is_valid = isinstance(value, list) and all(day in _DAYS for day in cast("list[Any]", value))
        else:
            is_valid = isinstance(value, str) and _is_text(expected, value)
        if not is_valid:
            raise bad_request(f"The property '{name}' does not have a valid value.", "ErrorInvalidRequest")
        if isinstance(expected, Mapping):
            _check(cast("Mapping[str, Any]", value), cast("Mapping[str, Any]", expected))


def _is_text(expected: str | tuple[str, ...], value: str) -> bool:
    if expected == "zone":
        if not is_time_zone(value):
            raise unknown_time_zone(value)
        return True
    if isinstance(expected, str):
        return _PATTERNS[expected].fullmatch(value) is not None
    return value in expected


def _response(call: GraphCall, values: Mapping[str, Any], tail: str = "") -> GraphResponse:
    assert call.user is not None
    context = call.context(f"users('{call.user.oid}')/mailboxSettings{tail}")
    return GraphResponse(200, {"@odata.context": context, **values})
