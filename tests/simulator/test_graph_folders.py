"""Mail folders over Graph: levels, well-known names, hidden and search folders, delta."""

import pytest


@pytest.fixture
def user(sim, microsoft, address):
    return microsoft.connect(sim, address, "Mail.ReadWrite", messages=40)


def add(user, name, **more):
    return user.simulation.post(f"mailboxes/{user.address}/folders", name=name, **more)


def test_a_list_has_one_level_and_pages_of_ten(user):
    parent = add(user, "Projects")
    child = add(user, "Paris", parent=parent["key"])
    for number in range(5):
        add(user, f"Folder {number}")
    page = user.get("mailFolders")
    assert len(page["value"]) == 10
    assert "$skip=10" in page["@odata.nextLink"]
    found = {one["id"]: one for one in user.pages("mailFolders")}
    assert len(found) == 14
    assert found[parent["id"]]["childFolderCount"] == 1
    assert child["id"] not in found
    assert [one["id"] for one in user.get(f"mailFolders/{parent['id']}/childFolders")["value"]] == [
        child["id"]
    ]
    assert user.get(f"mailFolders/{parent['id']}/childFolders/{child['id']}/messages")["value"] == []


def test_hidden_folders_are_listed_only_on_request(user):
    add(user, "Secret", hidden=True)
    shown = {one["displayName"] for one in user.pages("mailFolders")}
    everything = {one["displayName"] for one in user.pages("mailFolders", includeHiddenFolders="true")}
    assert "Secret" not in shown
    assert {"Secret", "Clutter"} <= everything
    assert user.request("GET", "mailFolders/$count").text == str(len(shown))


@pytest.mark.parametrize(
    "name", ["inbox", "Inbox", "SENTITEMS", "msgFolderRoot", "recoverableitemsdeletions"]
)
def test_well_known_names_work_in_any_case(user, name):
    found = user.get(f"mailFolders/{name}")
    assert user.get(f"mailFolders/{found['id']}")["id"] == found["id"]


def test_a_missing_well_known_folder_is_not_found(user):
    assert user.expect_error(404, "mailFolders/conflicts")["code"] == "ErrorItemNotFound"
    assert user.expect_error(400, "mailFolders/f1")["code"] == "ErrorInvalidIdMalformed"
    assert user.expect_error(400, "mailFolders/Posteingang")["code"] == "ErrorInvalidIdMalformed"


def test_counts_are_current(user):
    truth = [entry for entry in user.simulation.truth(user.address) if entry["keys"] == ["inbox"]]
    folder = user.get("mailFolders/inbox")
    assert folder["totalItemCount"] == len(truth)
    assert folder["unreadItemCount"] == sum(not entry["read"] for entry in truth)
    user.simulation.deliver(user.address, kind="plain")
    assert user.get("mailFolders/inbox")["totalItemCount"] == len(truth) + 1


def test_a_search_folder_states_its_type_and_lists_its_matches(user):
    made = user.post("mailFolders", {"displayName": "Unread", "filterQuery": "isRead eq false"})
    assert made["@odata.type"] == "#microsoft.graph.mailSearchFolder"
    assert made["filterQuery"] == "isRead eq false"
    listed = [one for one in user.pages("mailFolders") if "@odata.type" in one]
    assert [one["id"] for one in listed] == [made["id"]]
    unread = sum(not entry["read"] for entry in user.simulation.truth(user.address))
    assert len(user.pages(f"mailFolders/{made['id']}/messages")) == unread


def test_folders_are_created_renamed_moved_and_deleted(user):
    made = user.post("mailFolders", {"displayName": "One"})
    inner = user.post(f"mailFolders/{made['id']}/childFolders", {"displayName": "Two"})
    assert inner["parentFolderId"] == made["id"]
    taken = user.expect_error(409, "mailFolders", "POST", json={"displayName": "one"})
    assert taken["code"] == "ErrorFolderExists"
    renamed = user.request("PATCH", f"mailFolders/{inner['id']}", json={"displayName": "Three"}).json()
    assert (renamed["id"], renamed["displayName"]) == (inner["id"], "Three")
    moved = user.post(f"mailFolders/{inner['id']}/move", {"destinationId": "archive"})
    assert moved["parentFolderId"] == user.get("mailFolders/archive")["id"]
    assert user.request("DELETE", f"mailFolders/{made['id']}").status_code == 204
    assert user.expect_error(404, f"mailFolders/{made['id']}")["code"] == "ErrorItemNotFound"
    assert user.expect_error(403, "mailFolders/inbox", "DELETE")["code"] == "ErrorDeleteDistinguishedFolder"


def test_folder_delta_lists_nested_folders_then_added_changed_and_removed_ones(user):
    parent = add(user, "Projects")
    child = add(user, "Paris", parent=parent["key"])
    first, link = user.delta("mailFolders/delta", {"prefer": "odata.maxpagesize=3"})
    ids = [one["id"] for one in first]
    assert {parent["id"], child["id"], user.get("mailFolders/inbox")["id"]} <= set(ids)
    assert len(ids) == len(set(ids))
    assert user.delta(link)[0] == []
    fresh = add(user, "Fresh")
    path = f"mailboxes/{user.address}/folders"
    user.simulation.control.patch(f"{path}/{parent['key']}", json={"name": "Old projects"})
    user.simulation.delete(f"{path}/{child['key']}")
    reported = {one["id"]: one for one in user.delta(link)[0]}
    assert set(reported) == {fresh["id"], parent["id"], child["id"]}
    assert reported[parent["id"]]["displayName"] == "Old projects"
    assert reported[child["id"]]["@removed"] == {"reason": "deleted"}


def test_folders_are_filtered_ordered_and_selected(user):
    page = user.get(
        "mailFolders", **{"$filter": "startswith(displayName,'d')", "$orderby": "displayName desc"}
    )
    assert [one["displayName"] for one in page["value"]] == ["Drafts", "Deleted Items"]
    page = user.get("mailFolders", **{"$select": "displayName", "$top": 1, "$count": "true"})
    assert set(page["value"][0]) == {"id", "displayName"}
    assert page["@odata.count"] == 8


def test_expanding_shows_one_level_of_child_folders(user):
    """Follows "List mailFolders", https://learn.microsoft.com/graph/api/user-list-mailfolders"""
    parent = add(user, "Projects")
    child = add(user, "Paris", parent=parent["key"])
    shown = user.get(f"mailFolders/{parent['id']}", **{"$expand": "childFolders"})
    assert [one["id"] for one in shown["childFolders"]] == [child["id"]]
    shown = user.get(f"mailFolders/{parent['id']}", **{"$expand": "childFolders($select=displayName)"})
    assert shown["childFolders"] == [{"displayName": "Paris", "id": child["id"]}]
    everything = user.pages("mailFolders", **{"$expand": "childFolders", "$select": "displayName"})
    assert {one["displayName"]: len(one["childFolders"]) for one in everything}["Projects"] == 1
    assert user.expect_error(501, "mailFolders", params={"$expand": "messages"})["code"] == "NotImplemented"


def test_a_folder_is_copied_with_everything_in_it(sim, user):
    """Documented in mailFolder: copy."""
    parent = add(user, "Projects")
    child = add(user, "Paris", parent=parent["key"])
    number = sim.deliver(user.address)["number"]
    sim.act(user.address, number, "move", folder=child["key"])
    copied = user.post(f"mailFolders/{parent['id']}/copy", {"destinationId": "archive"})
    assert copied["displayName"] == "Projects"
    (inner,) = user.get(f"mailFolders/{copied['id']}/childFolders")["value"]
    assert (inner["displayName"], inner["totalItemCount"]) == ("Paris", 1)
    assert user.get(f"mailFolders/{child['id']}")["totalItemCount"] == 1
    user.expect_error(409, f"mailFolders/{parent['id']}/copy", "POST", json={"destinationId": "archive"})
    into_itself = {"destinationId": child["id"]}
    user.expect_error(400, f"mailFolders/{parent['id']}/copy", "POST", json=into_itself)


def test_a_folder_is_deleted_permanently(user):
    """Documented in mailFolder: permanentDelete."""
    folder = add(user, "Projects")
    assert user.request("POST", f"mailFolders/{folder['id']}/permanentDelete").status_code == 204
    user.expect_error(404, f"mailFolders/{folder['id']}")
    user.expect_error(403, "mailFolders/inbox/permanentDelete", "POST")


def test_delta_of_child_folders_is_not_the_delta_of_all_folders(user):
    """Follows "mailFolder: delta", https://learn.microsoft.com/graph/api/mailfolder-delta"""
    parent = add(user, "Projects")
    error = user.expect_error(501, f"mailFolders/{parent['id']}/childFolders/delta")
    assert error["code"] == "NotImplemented"
