"""Directories in the API, the client and on the pages: previewed, added, synced, shown and removed."""

import asyncio

import httpx2
import pytest

from flow.simulated_world import TOPIC, URL, open_world
from postroom.client import ApiError, DirectoryDefinition, Postroom
from postroom.model import ProviderName, Role, Scope
from postroom.web import server
from scenarios.simulated_directory import DirectoryWorld, SimulatedDirectory
from simulator.driver import running
from web.api_client import create_key_header
from web.push_server import serve
from web.sign_in_support import build_site, create_session_cookie


@pytest.fixture(scope="module")
def sim():
    with running("--clock", "manual") as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture
async def world(sim, database, owner, organization, tmp_path):
    """A directory of three users, of which one is suspended, and the whole application."""
    async with open_world(sim, database, organization, tmp_path, google_directory_url=sim.http) as opened:
        simulated = SimulatedDirectory(sim, ProviderName.GMAIL)
        simulated.create_users(3, others=1)
        simulated.suspend(simulated.addresses[2])
        async with server.open_application(opened.engine) as (application, _):
            made = DirectoryWorld(opened, owner, simulated)
            made.application = application
            yield made


def open_browser(world, cookies):
    transport = httpx2.ASGITransport(world.application, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url=URL, cookies=cookies, headers={"origin": URL})


@pytest.fixture
async def browser(world, database, organization):
    cookies = await create_session_cookie(build_site(database, organization, url=URL))
    async with open_browser(world, cookies) as client:
        yield client


@pytest.fixture
async def client(world, database, organization):
    key = (await create_key_header(database, organization))["authorization"].removeprefix("Bearer ")
    async with serve(world.application) as url:
        yield Postroom(url, key)


def define(simulated, **changed):
    given = {
        "name": "people",
        "provider": "gmail",
        "key": simulated.credential.certificate.reveal(),
        "admin_address": simulated.admin,
        "groups": [simulated.group.upper()],
    }
    return DirectoryDefinition(**given | changed)


def to_form(definition):
    return {
        "name": definition.name,
        "provider": definition.provider,
        "key": definition.key,
        "admin_address": definition.admin_address,
        "groups": " ".join(definition.groups),
        "policy": "full",
        "leaver_action": "pause",
        "max_leaver_percent": "10",
    }


async def test_a_program_previews_adds_syncs_and_removes_a_directory(world, client):
    definition = define(world.simulated)
    tried = await asyncio.to_thread(client.preview_new_directory, definition)
    assert tried.counts == {"connect": 2, "excluded": 1}
    assert await asyncio.to_thread(lambda: list(client.directories())) == []
    added = await asyncio.to_thread(client.add_directory, definition)
    assert (added.groups, added.users, added.listed_users) == ([world.simulated.group], {}, None)
    await world.work_off()
    shown = await asyncio.to_thread(client.directory, added.id)
    assert (shown.users, shown.listed_users) == ({"connected": 2}, 3)
    users = await asyncio.to_thread(lambda: list(client.directory_users(added.id, state="connected")))
    assert [user.address for user in users] == world.simulated.addresses[:2]
    preview = await asyncio.to_thread(client.preview_directory, added.id)
    assert preview.counts == {"connected": 2, "excluded": 1}
    world.simulated.set_group([])
    await asyncio.to_thread(client.sync_directory, added.id)
    await world.work_off()
    stopped = await asyncio.to_thread(client.directory, added.id)
    assert (stopped.users, "no selected user" in stopped.stop_reason) == ({"connected": 2}, True)
    await asyncio.to_thread(lambda: client.sync_directory(added.id, confirmed_leavers=2))
    await world.work_off()
    assert (await asyncio.to_thread(client.directory, added.id)).users == {"paused": 2}
    await asyncio.to_thread(client.remove_directory, added.id)
    assert (await asyncio.to_thread(client.directory, added.id)).removed_at is not None


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"key": "{}"}, "JSON key file"),
        ({"admin_address": None}, "administrator"),
        ({"tenant_id": "example.org"}, "no other credential"),
        ({"groups": ["missing@example.org"]}, "no group"),
    ],
)
async def test_mistakes_are_refused_with_their_remedy(world, client, changed, words):
    with pytest.raises(ApiError, match=words) as refused:
        await asyncio.to_thread(client.preview_new_directory, define(world.simulated, **changed))
    assert refused.value.status == 409


async def test_a_key_for_reading_lists_directories_and_changes_nothing(world, database, organization):
    header = await create_key_header(database, organization, Scope.READ)
    async with open_browser(world, {}) as program:
        assert (await program.get("/api/v1/directories", headers=header)).json()["data"] == []
        denied = await program.post("/api/v1/directories", headers=header, json={"name": "x"})
        assert denied.status_code == 403


async def test_a_person_previews_adds_syncs_and_removes_a_directory(world, browser):
    form = to_form(define(world.simulated))
    assert "No directories yet" in (await browser.get("/directories")).text
    preview = await browser.post("/directories/preview", data=form)
    assert "2 to connect, 1 excluded" in preview.text
    assert "Is suspended" in preview.text
    assert "No directories yet" in (await browser.get("/directories")).text
    added = await browser.post("/directories/add", data=form)
    assert added.status_code == 303
    place = added.headers["location"]
    await world.work_off()
    listed = (await browser.get("/directories")).text
    assert "Up to date" in listed
    shown = (await browser.get(place)).text
    assert (shown.count('<td data-label="State">Connected'), "Connected 2" in shown) == (2, True)
    assert "PRIVATE KEY" not in listed + shown
    world.simulated.set_group([])
    assert (await browser.post(f"{place}/sync", data={})).status_code == 303
    await world.work_off()
    assert "2 are connected or waiting" in (await browser.get(place)).text
    assert "A sync would stop" in (await browser.post(f"{place}/preview")).text
    assert (await browser.post(f"{place}/sync", data={"confirmed_leavers": "2"})).status_code == 303
    await world.work_off()
    assert "Paused 2" in (await browser.get(f"{place}?state=paused")).text
    assert (await browser.post(f"{place}/remove")).status_code == 303
    assert "Being removed" in (await browser.get(place)).text


async def test_a_wrong_form_says_why_and_does_not_repeat_the_credential(world, browser):
    form = to_form(define(world.simulated, groups=["missing@example.org"]))
    refused = await browser.post("/directories/add", data=form)
    assert (refused.status_code, "no group missing@example.org" in refused.text) == (400, True)
    assert "PRIVATE KEY" not in refused.text
    assert 'value="missing@example.org"' in refused.text
    assert "No directories yet" in refused.text


async def test_a_reader_sees_directories_without_actions(world, browser, database, organization):
    await world.add()
    site = build_site(database, organization, url=URL)
    async with open_browser(world, await create_session_cookie(site, Role.READER)) as reader:
        shown = (await reader.get(f"/directories/{world.directory.id}")).text
        assert (world.directory.name in shown, "Sync now" in shown) == (True, False)
        denied = await reader.post(f"/directories/{world.directory.id}/sync", data={})
        assert denied.status_code == 403
