"""The ledger, verified without Postroom: digests, chain and signatures as docs/ledger.md describes them."""

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC
from itertools import pairwise
from pathlib import Path
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from postroom_chaos.oracle.evidence import Violation
from postroom_chaos.oracle.sources import Row, Sources

_ENTRIES = """
    SELECT ledger.organization_id, ledger.id, position, event_type, entity_type, entity_id, actor_id, payload,
        personal_sha256, sha256, ledger.mac, occurred_at, salt, personal, ledger_purges.entry_id AS purged
    FROM ledger LEFT JOIN ledger_personal
        ON ledger_personal.organization_id = ledger.organization_id AND ledger_personal.entry_id = ledger.id
    LEFT JOIN ledger_purges
        ON ledger_purges.organization_id = ledger.organization_id AND ledger_purges.entry_id = ledger.id
    ORDER BY ledger.organization_id, position, ledger.id
"""
_SEALS = """
    SELECT organization_id, number, first_position, last_position, previous_sha256, sha256, signature, key_id
    FROM seals ORDER BY organization_id, number
"""


async def check_ledger(sources: Sources) -> list[Violation]:
    entries: dict[UUID, list[Row]] = defaultdict(list)
    for entry in await sources.rows(_ENTRIES):
        entries[entry["organization_id"]].append(entry)
    seals: dict[UUID, list[Row]] = defaultdict(list)
    for seal in await sources.rows(_SEALS):
        seals[seal["organization_id"]].append(seal)
    keys = read_public_keys(sources.evidence.home / "ledger.public")
    found: list[Violation] = []
    for organization in sorted(entries.keys() | seals.keys()):
        found += [violation for entry in entries[organization] for violation in _check_entry(entry)]
        found += _check_positions(organization, entries[organization], seals[organization])
        found += _check_seals(organization, entries[organization], seals[organization], keys)
    found += _check_heads(sources, seals)
    return found


def read_public_keys(path: Path) -> dict[str, bytes]:
    """Public keys by id: a key in base64 per line; its id is the start of its own SHA-256."""
    if not path.exists():
        return {}
    keys = [base64.b64decode(line) for line in path.read_text(encoding="ascii").split()]
    return {hashlib.sha256(key).hexdigest()[:16]: key for key in keys}


def _check_entry(entry: Row) -> Iterator[Violation]:
    subject = f"organization {entry['organization_id']}, entry {entry['id']} ({entry['event_type']})"
    personal = entry["personal_sha256"]
    content = [
        "postroom ledger entry 1",
        str(entry["organization_id"]),
        entry["event_type"],
        entry["entity_type"],
        entry["entity_id"],
        entry["actor_id"],
        entry["payload"],
        personal.hex() if personal else None,
        entry["occurred_at"].astimezone(UTC).isoformat(timespec="microseconds"),
    ]
    digest = hashlib.sha256(_canonical(content)).digest()
    if digest != entry["sha256"]:
        yield Violation(
            "ledger.entry",
            subject,
            f"its content has the digest {digest.hex()}, it says {entry['sha256'].hex()}: it was changed",
        )
    if entry["salt"] is None:
        if personal is not None and entry["purged"] is None:
            yield Violation("ledger.purge", subject, "its personal values are gone, and no purge is recorded")
        return
    digest = hashlib.sha256(entry["salt"] + _canonical(entry["personal"])).digest()
    if digest != personal:
        stated = personal.hex() if personal else None
        yield Violation(
            "ledger.personal",
            subject,
            f"its personal values have the digest {digest.hex()}, it says {stated}",
        )


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _check_positions(organization: UUID, entries: list[Row], seals: list[Row]) -> Iterator[Violation]:
    subject = f"organization {organization}"
    positions = [entry["position"] for entry in entries if entry["position"] is not None]
    if positions != list(range(1, len(positions) + 1)):
        gap = next(place for place, position in enumerate(positions, 1) if place != position)
        yield Violation(
            "ledger.positions", subject, f"positions run 1 to {len(positions)} without gaps; {gap} is missing"
        )
    unsealed = [entry for entry in entries if entry["position"] is None]
    if unsealed:
        ids = [entry["id"] for entry in unsealed[:5]]
        yield Violation(
            "ledger.unsealed", subject, f"{len(unsealed)} entries were never sealed, such as {ids}"
        )
    sealed = seals[-1]["last_position"] if seals else 0
    if positions and positions[-1] != sealed:
        text = f"the last seal ends at {sealed}, the last entry is {positions[-1]}: some were cut off"
        yield Violation("ledger.truncated", subject, text)


def _check_seals(
    organization: UUID, entries: list[Row], seals: list[Row], keys: Mapping[str, bytes]
) -> Iterator[Violation]:
    digests = {
        entry["position"]: entry["sha256"] + entry["mac"]
        for entry in entries
        if entry["position"] is not None
    }
    for seal in seals:
        subject = f"organization {organization}, seal {seal['number']}"
        first, last = seal["first_position"], seal["last_position"]
        head = f"postroom ledger seal 2 {seal['number']} {first} {last} ".encode()
        covered = [digests[position] for position in range(first, last + 1) if position in digests]
        expected = hashlib.sha256(head + (seal["previous_sha256"] or bytes(32)) + b"".join(covered)).digest()
        if expected != seal["sha256"]:
            text = f"entries {first} to {last} give {expected.hex()}, the seal says {seal['sha256'].hex()}"
            yield Violation("ledger.seal", subject, text)
        if (error := _check_signature(organization, seal, keys)) is not None:
            yield Violation("ledger.signature", subject, error)
    if seals and (seals[0]["number"], seals[0]["first_position"], seals[0]["previous_sha256"]) != (
        1,
        1,
        None,
    ):
        yield Violation("ledger.chain", f"organization {organization}", "the first seal is missing")
    for before, after in pairwise(seals):
        if (after["number"], after["first_position"], after["previous_sha256"]) != (
            before["number"] + 1,
            before["last_position"] + 1,
            before["sha256"],
        ):
            subject = f"organization {organization}, seal {after['number']}"
            yield Violation("ledger.chain", subject, f"does not follow seal {before['number']}")


def _check_signature(organization: UUID, seal: Row, keys: Mapping[str, bytes]) -> str | None:
    key = keys.get(seal["key_id"])
    if key is None:
        return f"signed with {seal['key_id']}, which is not among the public keys {sorted(keys)}"
    signed = b"postroom ledger signature 1 " + organization.bytes + seal["sha256"]
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(seal["signature"], signed)
    except InvalidSignature:
        return "its signature is wrong"
    return None


def _check_heads(sources: Sources, seals: Mapping[UUID, list[Row]]) -> Iterator[Violation]:
    for head in sources.evidence.ledger_heads:
        there = {seal["number"]: seal["sha256"].hex() for seal in seals.get(head.organization, [])}
        if there.get(head.number) != head.sha256:
            subject = f"organization {head.organization}, seal {head.number}"
            text = f"was {head.sha256} during the run, is now {there.get(head.number)}"
            yield Violation("ledger.truncated", subject, text)
