"""`postroom directories`: the dry run, the first sync, the removal, and clear messages."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import databases
from flow.simulated_world import TOPIC, settings_given
from postroom.model import OrganizationId, ProviderName
from scenarios.simulated_directory import SimulatedDirectory
from simulator.driver import Simulation, running

RunDirectories = Callable[..., Awaitable[tuple[int, str]]]


@pytest.fixture(scope="module")
def sim() -> Any:
    with running("--clock", "manual") as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture
def run(
    postroom: Any, sim: Simulation, database_url: str, organization: OrganizationId, tmp_path: Path
) -> RunDirectories:
    given = {f"POSTROOM_{name.upper()}": str(value) for name, value in settings_given(sim).items()} | {
        **databases.login_settings(database_url),
        "POSTROOM_HOME": str(tmp_path / "home"),
        "POSTROOM_ORGANIZATION": str(organization),
        "POSTROOM_GOOGLE_DIRECTORY_URL": sim.http,
    }

    async def run(*arguments: str) -> tuple[int, str]:
        done = await asyncio.to_thread(postroom, "directories", *arguments, **given)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.parametrize("provider", list(ProviderName))
async def test_a_directory_is_tried_added_shown_and_removed(
    run: RunDirectories, sim: Simulation, provider: ProviderName, tmp_path: Path
) -> None:
    simulated = SimulatedDirectory(sim, provider)
    simulated.create_users(2, others=1)
    simulated.suspend(simulated.addresses[1])
    secret = tmp_path / "secret"
    assert simulated.credential
    held = simulated.credential.client_secret or simulated.credential.certificate
    assert held
    secret.write_text(held.reveal())
    options = ["--key-file", str(secret), "--admin", simulated.admin]
    if provider is ProviderName.OUTLOOK:
        client = simulated.credential.client_id
        options = ["--tenant", simulated.domain, "--client-id", client, "--secret-file", str(secret)]
    added = ("add", "people", provider.value, *options, "--group", simulated.group)
    code, said = await run(*added, "--dry-run", "--json")
    assert code == 0, said
    tried = json.loads(said)
    assert tried["counts"] == {"connect": 1, "excluded": 1}
    assert (await run("list", "--json"))[1].strip() == "[]"
    code, said = await run(*added)
    assert (code, "Workers connect these users" in said) == (0, True), said
    code, said = await run("preview", "people")
    assert (code, "1 connect, 1 excluded" in said) == (0, True), said
    code, said = await run("sync", "people", "--confirm-leavers", "3")
    assert (code, "Due now" in said) == (0, True), said
    code, said = await run("list")
    assert (code, "people" in said) == (0, True), said
    code, said = await run("show", "people", "--json")
    assert (code, json.loads(said)["groups"]) == (0, [simulated.group]), said
    code, said = await run("remove", "people", "--yes")
    assert (code, "Removed" in said) == (0, True), said


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("add", "Bad Name", "gmail", "--admin", "a@example.org"), "name must consist"),
        (("add", "x", "gmail"), "administrator is required"),
        (("add", "x", "outlook", "--tenant", "example.org"), "tenant and the client ID"),
        (("add", "x", "gmail", "--admin", "a@example.org"), "JSON key of a service account"),
        (("show", "missing"), "No such directory"),
    ],
)
async def test_mistakes_have_a_message(run: RunDirectories, arguments: tuple[str, ...], message: str) -> None:
    code, said = await run(*arguments)
    assert code != 0
    assert message in said
