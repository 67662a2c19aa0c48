"""gwbackupy, which backs up Gmail to files with a service account, and restores them to another mailbox."""

import gzip
import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from simulator.driver import Simulation
from simulator.google_user import FULL
from simulator.referees.referee import Prepare, Referee

pytestmark = pytest.mark.soak

# Its defaults, with more messages at once.
OPTIONS = ("--service-account-key-filepath", "key.json", "--workdir", "backup", "--batch-size", "4")


@pytest.fixture
def gwbackupy(sim: Simulation, python_referee: Prepare) -> Referee:
    """Return gwbackupy with the key of a service account that may read and write every mailbox."""
    referee = python_referee(sim, "gwbackupy")
    key = sim.post("google/service-accounts", name="backup")
    sim.post("google/delegations", client_id=key["client_id"], domain="example.com", scopes=[FULL])
    referee.write_json("key.json", key)
    return referee


def list_messages(referee: Referee, address: str) -> dict[str, str]:
    """Return the SHA-256 of each stored message that is not marked as deleted, by message ID."""
    stored: dict[str, str] = {}
    deleted: set[str] = set()
    for file in (referee.home / "backup" / address).rglob("*.eml.gz"):
        message_id, _, properties = file.name.partition(".")
        if "deleted=" in properties:
            deleted.add(message_id)
        stored[message_id] = hashlib.sha256(gzip.decompress(file.read_bytes())).hexdigest()
    return {key: value for key, value in stored.items() if key not in deleted}


def list_hashes(truth: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the true SHA-256 of each message outside of spam and trash, by message ID."""
    return {entry["id"]: entry["sha256"] for entry in truth if not {"SPAM", "TRASH"} & set(entry["folders"])}


def test_gwbackupy_backs_up_follows_and_restores(sim: Simulation, gwbackupy: Referee, address: str):
    target = f"restored.{address}"
    sim.create("gmail", address, messages=150)
    sim.create("gmail", target)
    label = sim.post(f"mailboxes/{address}/folders", name="Clients/Acme")
    first, second, *_ = list_hashes(sim.truth(address))
    sim.act(address, second, "label", add=[label["key"]])
    gwbackupy.run("gwbackupy", *OPTIONS, "gmail", "backup", "--email", address)
    before = list_hashes(sim.truth(address))
    assert len(before) > 120
    assert list_messages(gwbackupy, address) == before

    arrived = sim.deliver(address, kind="invoice")["id"]
    sim.act(address, first, "trash")
    gwbackupy.run("gwbackupy", *OPTIONS, "gmail", "backup", "--email", address)
    after = list_hashes(sim.truth(address))
    assert (arrived in after, first in after) == (True, False)
    assert list_messages(gwbackupy, address) == after

    restore = ("gmail", "restore", "--email", address, "--to-email", target, "--restore-missing")
    gwbackupy.run("gwbackupy", *OPTIONS, *restore)
    restored = sim.truth(target)
    assert Counter(entry["sha256"] for entry in restored) == Counter([*before.values(), after[arrived]])
    names = {entry["sha256"]: set(entry["folder_names"]) for entry in sim.truth(address)}
    assert {"Clients/Acme", "gwbackupy"} <= next(
        set(entry["folder_names"]) for entry in restored if entry["sha256"] == before[second]
    )
    for entry in restored:
        if entry["sha256"] != before[first] and list(before.values()).count(entry["sha256"]) == 1:
            assert set(entry["folder_names"]) == names[entry["sha256"]] | {"gwbackupy"}
