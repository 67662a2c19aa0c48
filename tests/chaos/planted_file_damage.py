"""Damage to plant in the files of a healthy world, each with the checks that must report it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from postroom_chaos.oracle.evidence import Evidence


@dataclass(frozen=True)
class FileDamage:
    """`path`: the file to damage; `change`: from its bytes to others, or to none if it is removed."""

    path: Callable[[Evidence], Path]
    change: Callable[[bytes], bytes | None]
    checks: frozenset[str]


def damage_file(path, change, *checks: str) -> FileDamage:
    return FileDamage(path, change, frozenset(checks))


def _archived(evidence: Evidence) -> Path:
    return min(path for path in evidence.archive.glob("archive/**/*.pdf"))


def _metadata(evidence: Evidence) -> Path:
    return min(evidence.archive.glob("archive/**/*.metadata.json"))


def _blob(evidence: Evidence) -> Path:
    return min(path for path in evidence.blobs.glob("*/??/*"))


def _log(evidence: Evidence) -> Path:
    return evidence.logs[0]


def _webhooks(evidence: Evidence) -> Path:
    return evidence.webhooks[0].received


def _feed(evidence: Evidence) -> Path:
    return evidence.feeds[0].events


def _remove(_: bytes) -> None: ...


def _add_line(line: str) -> Callable[[bytes], bytes]:
    return lambda content: content + line.encode() + b"\n"


def _drop_last_line(content: bytes) -> bytes:
    return b"".join(content.splitlines(keepends=True)[:-1])


def _repeat_third_line(content: bytes, times: int = 2) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join([*lines[:2], *lines[2:3] * times, *lines[3:]])


_drop_third_line = partial(_repeat_third_line, times=0)


def _read_entity(line: bytes) -> tuple[str, str]:
    data = json.loads(json.loads(line)["body"])["data"]
    return data["entity_type"], data["entity_id"]


def _swap_deliveries(content: bytes) -> bytes:
    """Two events of one object, the later first."""
    lines = content.splitlines(keepends=True)
    for late in range(len(lines)):
        for early in range(late):
            accepted = json.loads(lines[early])["status"] == json.loads(lines[late])["status"] == 200
            if accepted and _read_entity(lines[early]) == _read_entity(lines[late]):
                lines[early], lines[late] = lines[late], lines[early]
                return b"".join(lines)
    raise AssertionError("no object has two events")


def _drop_delivery(content: bytes) -> bytes:
    """The accepted last event of an object is not recorded."""
    lines = content.splitlines(keepends=True)
    seen = [_read_entity(line) for line in lines]
    for at in reversed(range(len(lines))):
        if seen.count(seen[at]) == 1 and json.loads(lines[at])["status"] == 200:
            return b"".join(lines[:at] + lines[at + 1 :])
    raise AssertionError("every object has two events")


def _change_first_delivery(content: bytes, **changes: object) -> bytes:
    first, rest = content.split(b"\n", 1)
    return json.dumps(json.loads(first) | changes).encode() + b"\n" + rest


def _change_body(content: bytes) -> bytes:
    body = json.loads(json.loads(content.split(b"\n", 1)[0])["body"])
    return _change_first_delivery(content, body=json.dumps(body | {"type": "x"}))


def _remove_signature(content: bytes) -> bytes:
    return _change_first_delivery(content, headers={"webhook-id": "x", "webhook-timestamp": "1"})


def _repeat_id(content: bytes) -> bytes:
    """The second event has the id of the first."""
    first, second, *rest = map(json.loads, content.splitlines())
    second["headers"] |= {
        name: first["headers"][name] for name in first["headers"] if name.lower() == "webhook-id"
    }
    return b"".join(json.dumps(each).encode() + b"\n" for each in (first, second, *rest))


IN_FILES: dict[str, FileDamage] = {
    "an archived file is missing": damage_file(_archived, _remove, "documents.archive"),
    "an archived file has other bytes": damage_file(
        _archived, lambda content: content[:-1], "documents.archive_bytes"
    ),
    "archived metadata are missing": damage_file(_metadata, _remove, "documents.archive_metadata"),
    "a temporary file is in the archive": damage_file(
        lambda world: _archived(world).with_name(".1f2e"), lambda _: b"half", "documents.archive_extra"
    ),
    "a file of no document is in the archive": damage_file(
        lambda world: _archived(world).with_name("other-2.pdf"), lambda _: b"x", "documents.archive_extra"
    ),
    "a blob is missing": damage_file(_blob, _remove, "documents.blob"),
    "a blob is cut": damage_file(_blob, lambda content: content[:-1], "documents.blob"),
    "a blob was never completed": damage_file(
        lambda world: world.blobs / "new" / "1f2e", lambda _: b"half", "leftovers.file"
    ),
    "a temporary file is left": damage_file(
        lambda world: world.temporary_folders[0] / "x.tmp", lambda _: b"half", "leftovers.file"
    ),
    "an address is in the log": damage_file(
        _log, _add_line('{"event": "x", "to": "Ada@example.com"}'), "leftovers.log"
    ),
    "a file name is in the log": damage_file(_log, _add_line("read {file_name}"), "leftovers.log"),
    "a secret is in the log": damage_file(_log, _add_line("signed with {secret}"), "leftovers.log"),
    "the public keys are lost": damage_file(
        lambda world: world.home / "ledger.public", lambda _: b"", "ledger.signature"
    ),
    "a delivery was lost": damage_file(_webhooks, _drop_delivery, "webhooks.lost"),
    "deliveries are out of order": damage_file(_webhooks, _swap_deliveries, "webhooks.order"),
    "a delivery has another body": damage_file(
        _webhooks, _change_body, "webhooks.signature", "webhooks.body"
    ),
    "two events have one id": damage_file(_webhooks, _repeat_id, "webhooks.signature", "webhooks.id"),
    "a delivery has no signature": damage_file(
        _webhooks, _remove_signature, "webhooks.signature", "webhooks.timestamp"
    ),
    "a follower missed the end": damage_file(_feed, _drop_last_line, "feed.missed"),
    "a follower missed an event": damage_file(_feed, _drop_third_line, "feed.order"),
    "a follower got an event twice": damage_file(_feed, _repeat_third_line, "feed.order"),
}
