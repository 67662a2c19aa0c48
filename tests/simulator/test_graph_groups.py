"""Groups over Graph: their members, direct and transitive, and their permission."""

import itertools
from typing import Any

import pytest

from simulator.driver import Simulation

_tenants = itertools.count(1)


@pytest.fixture
def user(sim: Simulation, microsoft: Any) -> Any:
    """Return one of three users of a tenant of their own, who may read users."""
    domain = f"grouped{next(_tenants)}.test"
    for name in ("ben.berg", "cora"):
        sim.create("outlook", f"{name}@{domain}")
    sim.create("outlook", f"dora@other-{domain}")
    return microsoft.connect(sim, f"ann@{domain}", "User.Read.All")


@pytest.fixture
def reader(sim: Simulation, microsoft: Any, user: Any) -> Any:
    domain = user.address.partition("@")[2]
    sim.post("microsoft/groups", mail=f"all@{domain}", members=[f"inner@{domain}", user.address])
    members = [f"ben.berg@{domain}", user.address, f"dora@other-{domain}"]
    sim.post("microsoft/groups", mail=f"inner@{domain}", name="Inner circle", members=members)
    return microsoft.connect(sim, f"eve@{domain}", "User.Read.All", "GroupMember.Read.All")


def test_members_of_a_group_are_listed_directly_and_transitively(reader: Any) -> None:
    """Documented in "List group members" and "List group transitive members"."""
    domain = reader.address.partition("@")[2]
    [found] = reader.get("/groups", **{"$filter": f"mail eq 'all@{domain}'"})["value"]
    assert (found["displayName"], found["groupTypes"]) == ("all", ["Unified"])
    assert reader.get(f"/groups/{found['id']}", **{"$select": "mail"})["mail"] == f"all@{domain}"
    direct = reader.get(f"/groups/{found['id']}/members")["value"]
    assert [one["@odata.type"] for one in direct] == ["#microsoft.graph.group", "#microsoft.graph.user"]
    path = f"/groups/{found['id']}/transitiveMembers/microsoft.graph.user"
    everyone = reader.pages(path, **{"$top": 1, "$select": "id,userPrincipalName,accountEnabled"})
    assert sorted(one["userPrincipalName"].partition("@")[0] for one in everyone) == ["ann", "ben.berg"]
    assert all(one["accountEnabled"] for one in everyone)


def test_groups_need_their_own_permission_and_belong_to_one_tenant(
    sim: Simulation, microsoft: Any, user: Any, reader: Any
) -> None:
    assert user.expect_error(403, "/groups")["code"] == "Authorization_RequestDenied"
    other = microsoft.connect(sim, f"dan@other-{reader.address.partition('@')[2]}", "GroupMember.Read.All")
    assert other.get("/groups")["value"] == []
    id_ = reader.get("/groups")["value"][0]["id"]
    assert other.expect_error(404, f"/groups/{id_}/members")["code"] == "Request_ResourceNotFound"


def test_groups_are_part_of_the_saved_state(start: Any) -> None:
    sim = start()
    sim.post("microsoft/groups", mail="all@example.com", members=["ann@example.com"])
    saved = sim.control.get("state").content
    sim.post("reset")
    assert sim.get("microsoft/groups") == []
    answer = sim.control.post("state", content=saved, headers={"content-type": "application/gzip"})
    assert answer.status_code == 204
    assert [group["mail"] for group in sim.get("microsoft/groups")] == ["all@example.com"]
