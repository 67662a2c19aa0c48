"""lieer, which mirrors Gmail in a notmuch database, with its default options.

It needs the library and the program of notmuch (Debian: libnotmuch-dev, notmuch).
"""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from simulator.driver import Simulation
from simulator.google_user import MODIFY, READONLY, SCOPE
from simulator.referees.google_files import make_authorized_user
from simulator.referees.referee import Prepare, Referee, require_notmuch

pytestmark = pytest.mark.soak

MESSAGES = 2000
PAGE = 100
BATCH = 50


@pytest.fixture
def lieer(request: pytest.FixtureRequest, sim: Simulation, python_referee: Prepare, address: str) -> Referee:
    """Return lieer in a new notmuch database, with credentials that it has to refresh."""
    require_notmuch()
    referee = python_referee(sim, "lieer")
    account = referee.home / "mail" / address
    account.mkdir(parents=True)
    config = referee.home / "notmuch-config"
    config.write_text(f"[database]\npath={account.parent}\n[new]\ntags=new\n", encoding="utf-8")
    referee.variables["NOTMUCH_CONFIG"] = str(config)
    referee.run("notmuch", "new")
    inside = Referee(referee.programs, account, referee.variables)
    inside.run("gmi", "init", "--no-auth", address)
    sim.create("gmail", address, messages=request.param)
    scopes = (READONLY, SCOPE + "labels", MODIFY)
    inside.write_json(".credentials.gmailieer.json", make_authorized_user(sim, address, *scopes))
    return inside


def hash_files(account: Path) -> dict[str, str]:
    """Return the SHA-256 of each message file by the message ID in its name."""
    files = [file for file in (account / "mail").rglob("*") if file.is_file()]
    assert len(files) == len({file.name.partition(":")[0] for file in files})
    return {file.name.partition(":")[0]: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def expected_hashes(sim: Simulation, address: str) -> dict[str, str]:
    """Return the hashes of the true bytes with Unix line endings: lieer converts them."""
    raw = {entry["id"]: sim.raw(address, entry["id"]) for entry in sim.truth(address, digests=False)}
    return {key: hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest() for key, data in raw.items()}


def count_requests(sim: Simulation) -> Counter[str]:
    """Count the requests since the last count, by endpoint."""
    entries: list[dict[str, Any]] = sim.get("requests", limit=10_000)
    sim.delete("requests")
    return Counter(entry["endpoint"] for entry in entries)


@pytest.mark.parametrize("lieer", [MESSAGES], indirect=True)
def test_lieer_pulls_2000_messages_and_then_only_changes(sim: Simulation, lieer: Referee, address: str):
    lieer.run("gmi", "sync")
    assert hash_files(lieer.home) == expected_hashes(sim, address)
    first = count_requests(sim)
    # It reads one more message to learn where the history starts.
    assert first["messages.get"] == MESSAGES + 1
    assert first["batch"] == MESSAGES / BATCH
    assert first["messages.list"] <= MESSAGES / PAGE + 1

    lieer.run("gmi", "sync")
    # It asks twice: first whether its history ID is still valid.
    assert count_requests(sim) == Counter({"oauth.token": 1, "labels.list": 1, "history.list": 2})

    new = {sim.deliver(address)["id"] for _ in range(7)}
    oldest, marked = sim.truth(address)[0], sim.truth(address)[1]
    sim.delete(f"mailboxes/{address}/messages/{oldest['id']}")
    sim.act(address, marked["id"], "mark", read=not marked["read"])
    lieer.run("gmi", "sync")
    assert hash_files(lieer.home) == expected_hashes(sim, address)
    assert new < set(hash_files(lieer.home))
    after = count_requests(sim)
    assert after["messages.list"] == 0
    assert after["messages.get"] <= len(new) + 1


@pytest.mark.parametrize("lieer", [20], indirect=True)
def test_lieer_pushes_tags_as_labels(sim: Simulation, lieer: Referee, address: str):
    lieer.run("gmi", "sync")
    lieer.run("notmuch", "tag", "+flagged", "+projects", "--", "*")
    lieer.run("gmi", "sync")
    labels = {label["id"]: label["name"] for label in sim.get(f"mailboxes/{address}")["folders"]}
    for entry in sim.truth(address):
        assert {"STARRED", "projects"} <= {labels.get(key, key) for key in entry["folders"]}
    assert hash_files(lieer.home) == expected_hashes(sim, address)
