"""What clients store with messages in Graph, deletion, delta of a whole mailbox, overrides and /beta.

"openTypeExtension resource type", https://learn.microsoft.com/graph/api/resources/opentypeextension
"inferenceClassificationOverride resource type",
https://learn.microsoft.com/graph/api/resources/inferenceclassificationoverride
"""

import pytest

from simulator.google_user import make_message

WRITE = ("Mail.ReadWrite", "Mail.Send")
COLOR = "String {66f5a359-4659-4830-9070-00047ec6ac6e} Name Color"
PALETTE = "StringArray {66f5a359-4659-4830-9070-00049ec6ac6e} Name Palette"


@pytest.fixture
def user(sim, microsoft, address):
    return microsoft.connect(sim, address, *WRITE, messages=3, spread=False)


@pytest.fixture
def message(user):
    return user.get("messages")["value"][0]["id"]


def test_open_extensions_are_stored_with_a_message(user, message):
    path = f"messages/{message}/extensions"
    body = {
        "@odata.type": "microsoft.graph.openTypeExtension",
        "extensionName": "Com.Example.Deal",
        "size": 3,
    }
    made = user.post(path, body)
    assert (made["id"], made["size"]) == ("Microsoft.OutlookServices.OpenTypeExtension.Com.Example.Deal", 3)
    user.expect_error(409, path, "POST", json=body)
    for name in (made["id"], "com.example.deal"):
        assert user.get(f"{path}/{name}")["size"] == 3
        changed = user.request("PATCH", f"{path}/{name}", json={"size": None, "state": "won"}).json()
        assert ("size" in changed, changed["state"]) == (False, "won")
        user.request("PATCH", f"{path}/{name}", json={"size": 3})
    assert [one["id"] for one in user.get(path)["value"]] == [made["id"]]
    assert user.request("GET", f"{path}/$count").text == "1"
    expanded = user.get(f"messages/{message}?$expand=extensions($filter=id eq 'Com.Example.Deal')")
    assert expanded["extensions"][0]["state"] == "won"
    user.expect_error(400, f"messages/{message}?$expand=extensions")
    assert user.request("DELETE", f"{path}/{made['id']}").status_code == 204
    assert user.get(path)["value"] == []
    user.expect_error(404, f"{path}/{made['id']}")
    user.expect_error(400, path, "POST", json={"size": 3})


def test_open_extensions_are_created_with_their_message(user, message):
    """Follows "Create open extension", https://learn.microsoft.com/graph/api/opentypeextension-post-opentypeextension"""
    deal = {
        "@odata.type": "microsoft.graph.openTypeExtension",
        "extensionName": "Com.Example.Deal",
        "size": 3,
    }
    draft = user.post("messages", {"subject": "Offer", "extensions": [deal]})
    assert "extensions" not in draft
    assert user.get(f"messages/{draft['id']}/extensions/com.example.deal")["size"] == 3
    reply = user.post(f"messages/{message}/createReply", {"message": {"extensions": [deal]}})
    assert user.request("GET", f"messages/{reply['id']}/extensions/$count").text == "1"
    count = user.get("mailFolders/drafts")["totalItemCount"]
    for wrong in ("x", ["x"], [{}], [deal | {"@odata.type": "microsoft.graph.extension"}]):
        user.expect_error(400, "messages", "POST", json={"extensions": wrong})
    user.expect_error(409, "messages", "POST", json={"extensions": [deal, deal]})
    user.expect_error(400, f"messages/{draft['id']}", "PATCH", json={"extensions": [deal]})
    assert user.get("mailFolders/drafts")["totalItemCount"] == count


def test_extended_properties_are_set_expanded_and_filtered(user, message):
    """Follows "Create singleValueLegacyExtendedProperty",
    https://learn.microsoft.com/graph/api/singlevaluelegacyextendedproperty-post-singlevalueextendedproperties

    "Get singleValueLegacyExtendedProperty", https://learn.microsoft.com/graph/api/singlevaluelegacyextendedproperty-get
    """
    mine = [{"id": COLOR, "value": "Green"}]
    draft = user.post("messages", {"subject": "Later", "singleValueExtendedProperties": mine})
    other = [{"id": COLOR, "value": "Red"}]
    user.request("PATCH", f"messages/{message}", json={"singleValueExtendedProperties": other})
    expand = f"singleValueExtendedProperties($filter=id eq '{COLOR}' or id eq 'Integer 0x0e08')"
    shown = user.get(f"messages/{draft['id']}", **{"$expand": expand})["singleValueExtendedProperties"]
    assert shown[0] == mine[0]
    assert shown[1]["id"] == "Integer 0xe08"
    where = f"singleValueExtendedProperties/any(ep: ep/id eq '{COLOR}' and ep/value eq 'Green')"
    found = user.get("messages", **{"$filter": where})["value"]
    assert [one["id"] for one in found] == [draft["id"]]
    for wrong in ([{"id": "Color", "value": "x"}], [{"id": COLOR}], "x", [1]):
        body = {"singleValueExtendedProperties": wrong}
        user.expect_error(400, f"messages/{message}", "PATCH", json=body)


def test_extended_properties_with_several_values_are_set_expanded_and_filtered(user, message):
    """A property of several values is created with its message or later, and shown only when expanded.

    "Create multiValueLegacyExtendedProperty",
    https://learn.microsoft.com/graph/api/multivaluelegacyextendedproperty-post-multivalueextendedproperties
    "Get multiValueLegacyExtendedProperty",
    https://learn.microsoft.com/graph/api/multivaluelegacyextendedproperty-get
    """
    mine, other = ([{"id": PALETTE, "value": colors}] for colors in (["Green", "Aqua"], ["Red"]))
    draft = user.post("messages", {"subject": "Later", "multiValueExtendedProperties": mine})
    assert "multiValueExtendedProperties" not in draft
    body = {"multiValueExtendedProperties": other}
    assert user.request("PATCH", f"messages/{message}", json=body).status_code == 200
    for identifier, expected in ((draft["id"], mine), (message, other)):
        expand = f"multiValueExtendedProperties($filter=id eq '{PALETTE.lower()}')"
        shown = user.get(f"messages/{identifier}", **{"$expand": expand})
        assert shown["multiValueExtendedProperties"] == expected
    where = f"multiValueExtendedProperties/any(ep: ep/id eq '{PALETTE}')"
    found = user.get("messages", **{"$filter": where})["value"]
    assert {one["id"] for one in found} == {draft["id"], message}
    user.expect_error(400, "messages", params={"$filter": where.replace("ep/id", "ep/value")})
    user.expect_error(400, f"messages/{message}", params={"$expand": "multiValueExtendedProperties"})
    single = PALETTE.replace("StringArray", "String")
    for wrong in (
        [{"id": single, "value": ["x"]}],
        [{"id": PALETTE, "value": "x"}],
        [{"id": PALETTE}],
        "x",
        [1],
    ):
        body = {"multiValueExtendedProperties": wrong}
        user.expect_error(400, f"messages/{message}", "PATCH", json=body)


def test_a_flag_has_dates(user, message):
    """Follows "followupFlag resource type", https://learn.microsoft.com/graph/api/resources/followupflag"""

    def set_flag(**flag):
        return user.request("PATCH", f"messages/{message}", json={"flag": flag})

    start, due = ({"dateTime": f"2026-03-0{day}T00:00:00", "timeZone": "UTC"} for day in (3, 4))
    flag = {"flagStatus": "flagged", "startDateTime": start, "dueDateTime": due}
    assert set_flag(**flag).json()["flag"] == flag
    assert set_flag(flagStatus="flagged", dueDateTime=due).status_code == 400
    elsewhere = {"flag": flag | {"dueDateTime": due | {"timeZone": "Mars/Olympus"}}}
    error = user.expect_error(400, f"messages/{message}", "PATCH", json=elsewhere)
    assert error["code"] == "TimeZoneNotSupportedException"
    completed = set_flag(flagStatus="complete").json()["flag"]
    assert completed["completedDateTime"]["dateTime"].startswith("2026-03-0")
    assert set_flag(flagStatus="notFlagged").json()["flag"] == {"flagStatus": "notFlagged"}


def test_receipts_of_a_received_message_can_be_requested(user, message):
    """Follows "Update message", https://learn.microsoft.com/graph/api/message-update"""
    body = {"isReadReceiptRequested": True}
    assert user.request("PATCH", f"messages/{message}", json=body).json()["isReadReceiptRequested"]


def test_a_deleted_message_can_be_restored(user, message):
    """Follows "Delete message", https://learn.microsoft.com/graph/api/message-delete

    "message: permanentDelete", https://learn.microsoft.com/graph/api/message-permanentdelete
    """
    _, link = user.delta("messages/delta")
    count = len(user.get("messages")["value"])
    assert user.request("DELETE", f"messages/{message}").status_code == 204
    user.expect_error(404, f"messages/{message}")
    assert len(user.get("messages")["value"]) == count - 1
    changes, link = user.delta(link)
    assert [("@removed" in one, one["id"]) for one in changes] == [(True, message)]
    [deleted] = user.get("mailFolders/recoverableitemsdeletions/messages")["value"]
    restored = user.post(f"messages/{deleted['id']}/move", {"destinationId": "inbox"})
    changes, _ = user.delta(link)
    assert [one["id"] for one in changes] == [restored["id"]]
    for _ in range(2):  # to the recoverable items, then for good
        [found] = [one for one in user.get("messages")["value"] if one["id"] == restored["id"]] or user.get(
            "mailFolders/recoverableitemsdeletions/messages"
        )["value"]
        assert user.request("DELETE", f"messages/{found['id']}").status_code == 204
    assert user.get("mailFolders/recoverableitemsdeletions/messages")["value"] == []


def test_a_rejected_draft_leaves_nothing_behind(user, message):
    before = user.get("mailFolders/drafts")["totalItemCount"]
    wrong = {"importance": "extreme"}
    user.expect_error(400, f"messages/{message}/createReply", "POST", json={"message": wrong})
    user.expect_error(400, "messages", "POST", json=wrong)
    assert user.get("mailFolders/drafts")["totalItemCount"] == before


def test_the_id_of_a_cloud_link_stays_when_a_file_is_added(sim, microsoft, address):
    user = microsoft.connect(sim, address, *WRITE)
    raw = make_message(X_Mailsim_Reference='name="plan.docx"; type="text/plain"; size="10"')
    path = f"messages/{sim.deliver(address, raw)['id']}/attachments"
    [link] = user.get(path)["value"]
    file = {"@odata.type": "#microsoft.graph.fileAttachment", "name": "a.txt", "contentBytes": "eA=="}
    added = user.post(path, file)
    assert user.get(f"{path}/{link['id']}")["name"] == "plan.docx"
    assert user.get(f"{path}/{added['id']}")["name"] == "a.txt"
    assert user.request("DELETE", f"{path}/{added['id']}").status_code == 204
    assert [one["id"] for one in user.get(path)["value"]] == [link["id"]]


def test_overrides_classify_arriving_mail(sim, user):
    path = "inferenceClassification/overrides"
    body = {"classifyAs": "other", "senderEmailAddress": {"name": "S", "address": "sender@example.org"}}
    made = user.post(path, body)
    assert user.post(path, body)["id"] == made["id"]  # one for each sender
    arrived = sim.deliver(user.address, make_message())["id"]
    assert user.get(f"messages/{arrived}")["inferenceClassification"] == "other"
    assert (
        user.get(path)["value"]
        == user.get("inferenceClassification")["overrides"]
        == [body | {"id": made["id"]}]
    )
    changed = user.request("PATCH", f"{path}/{made['id']}", json={"classifyAs": "focused"}).json()
    assert changed["classifyAs"] == user.get(f"{path}/{made['id']}")["classifyAs"] == "focused"
    assert user.request("GET", f"{path}/$count").text == "1"
    assert user.request("DELETE", f"{path}/{made['id']}").status_code == 204
    user.expect_error(404, f"{path}/{made['id']}")
    user.expect_error(400, path, "POST", json=body | {"classifyAs": "x"})


def test_beta_answers_as_v1_with_its_own_links_and_properties(user, message):
    page = user.http.get("/beta/me/messages?$top=1").json()
    assert page["@odata.nextLink"].startswith(f"{user.simulation.http}/beta/")
    assert "/beta/$metadata" in page["@odata.context"]
    assert user.http.get(f"/beta/me/messages/{message}").json()["id"] == message
    assert user.http.get("/beta/me/mailFolders/inbox").json()["wellKnownName"] == "inbox"
    assert "wellKnownName" not in user.get("mailFolders/inbox")
    batch = {"requests": [{"id": "1", "method": "GET", "url": "/me/mailFolders/inbox"}]}
    [part] = user.http.post("/beta/$batch", json=batch).json()["responses"]
    assert part["body"]["wellKnownName"] == "inbox"
    assert user.http.get("/beta/me", headers={"authorization": ""}).status_code == 401


def test_version_1_of_the_openid_configuration_names_the_keys(user):
    """Follows "OpenID Connect on the Microsoft identity platform", https://learn.microsoft.com/entra/identity-platform/v2-protocols-oidc"""
    configuration = user.http.get("/common/.well-known/openid-configuration").json()
    assert configuration["issuer"] == "https://sts.windows.net/{tenantid}/"
    assert user.http.get(configuration["jwks_uri"]).json()["keys"]
    assert user.http.get("/common/v2.0/.well-known/openid-configuration").status_code == 200
