"""Message rules over Graph, and their effect on arriving mail.

"messageRule resource type", https://learn.microsoft.com/graph/api/resources/messagerule
"messageRulePredicates resource type", https://learn.microsoft.com/graph/api/resources/messagerulepredicates
"messageRuleActions resource type", https://learn.microsoft.com/graph/api/resources/messageruleactions
"""

from email.message import EmailMessage

import pytest

RULES = "mailFolders/inbox/messageRules"


@pytest.fixture
def user(sim, microsoft, address):
    return microsoft.connect(sim, address, "MailboxSettings.ReadWrite", "Mail.ReadWrite", "Mail.Send")


def add(user, actions, **more):
    return user.post(RULES, {"displayName": "Rule", "sequence": 1, "actions": actions, **more})


def deliver(user, sender="Ann <ann@example.org>", subject="Invoice 7", **headers):
    made = EmailMessage()
    made["From"], made["Subject"] = sender, subject
    made["To"] = headers.pop("to", user.address)
    for name, value in headers.items():
        made[name] = value
    made.set_content("Please pay soon.")
    number = user.simulation.deliver(user.address, made.as_bytes())["number"]
    (entry,) = [one for one in user.simulation.truth(user.address) if one["number"] == number]
    return entry


def test_rules_are_created_read_changed_and_deleted(user):
    """Documented in the messageRule resource and its methods."""
    made = add(user, {"markAsRead": True}, conditions={"senderContains": ["ann"]})
    assert (made["isEnabled"], made["hasError"], made["isReadOnly"]) == (True, False, False)
    add(user, {"delete": True}, displayName="First", sequence=1)
    path = f"{RULES}/{made['id']}"
    changed = user.request("PATCH", path, json={"displayName": "New", "sequence": 9}).json()
    assert (changed["displayName"], changed["conditions"]) == ("New", {"senderContains": ["ann"]})
    assert [one["displayName"] for one in user.get(RULES)["value"]] == ["First", "New"]
    assert user.request("GET", f"{RULES}/$count").text == "2"
    assert user.request("DELETE", path).status_code == 204
    user.expect_error(404, path)


def test_arriving_mail_is_moved_marked_and_categorized(user):
    """Documented in the messageRuleActions resource."""
    folder = user.post("mailFolders", {"displayName": "Invoices"})
    actions = {
        "moveToFolder": folder["id"],
        "markAsRead": True,
        "assignCategories": ["Money"],
        "markImportance": "high",
    }
    add(user, actions, conditions={"subjectContains": ["INVOICE", "bill"]})
    entry = deliver(user)
    assert entry["folders"] == [folder["id"]]
    shown = user.get(f"mailFolders/{folder['id']}/messages")["value"][0]
    assert (shown["isRead"], shown["categories"], shown["importance"]) == (True, ["Money"], "high")
    assert deliver(user, subject="Hello")["keys"] == ["inbox"]


@pytest.mark.parametrize(
    "conditions, applies",
    [
        ({"fromAddresses": [{"emailAddress": {"address": "ANN@example.org"}}]}, True),
        ({"fromAddresses": [{"emailAddress": {"address": "bob@example.org"}}]}, False),
        ({"senderContains": ["ann"], "subjectContains": ["nothing"]}, False),
        ({"bodyContains": ["pay soon"]}, True),
        ({"bodyOrSubjectContains": ["voice"]}, True),
        ({"headerContains": ["x-kind: bill"]}, True),
        ({"recipientContains": ["person"]}, True),
        ({"hasAttachments": True}, False),
        ({"hasAttachments": False, "sentToMe": True, "sentOnlyToMe": True}, True),
        ({"sentCcMe": True}, False),
        ({"notSentToMe": True}, False),
        ({"importance": "normal"}, True),
        ({}, True),
    ],
)
def test_all_conditions_must_hold(user, conditions, applies):
    """Documented in the messageRulePredicates resource."""
    add(user, {"delete": True}, conditions=conditions)
    entry = deliver(user, **{"X-Kind": "bill"})
    assert entry["keys"] == (["deleteditems"] if applies else ["inbox"])


def test_exceptions_disabled_rules_and_sequence_count(user):
    """Documented in the messageRule resource: rules run in the order of their sequence."""
    add(user, {"delete": True}, isEnabled=False)
    add(user, {"delete": True}, exceptions={"subjectContains": ["invoice"]})
    add(user, {"assignCategories": ["Second"]}, sequence=3)
    add(user, {"assignCategories": ["First"], "stopProcessingRules": True}, sequence=2)
    assert deliver(user)["keys"] == ["inbox"]
    assert user.get("mailFolders/inbox/messages")["value"][0]["categories"] == ["First"]
    assert deliver(user, subject="Other")["keys"] == ["deleteditems"]


def test_a_copy_goes_to_another_folder_and_the_original_stays(user):
    add(user, {"copyToFolder": "archive"})
    assert deliver(user)["keys"] == ["inbox"]
    for folder in ("inbox", "archive"):
        assert len(user.get(f"mailFolders/{folder}/messages")["value"]) == 1


def test_a_rule_whose_folder_is_gone_leaves_mail_in_the_inbox(user):
    folder = user.post("mailFolders", {"displayName": "Invoices"})
    add(user, {"moveToFolder": folder["id"]})
    assert user.request("DELETE", f"mailFolders/{folder['id']}").status_code == 204
    assert deliver(user)["keys"] == ["inbox"]


def test_sent_mail_passes_the_rules_of_its_recipient_and_copies_do_not(user):
    add(user, {"moveToFolder": "archive"})
    order = {"subject": "Hi", "toRecipients": [{"emailAddress": {"address": user.address}}]}
    assert user.request("POST", "sendMail", json={"message": order}).status_code == 202
    assert len(user.get("mailFolders/sentitems/messages")["value"]) == 1
    (arrived,) = user.get("mailFolders/archive/messages")["value"]
    user.post(f"messages/{arrived['id']}/copy", {"destinationId": "inbox"})
    assert len(user.get("mailFolders/inbox/messages")["value"]) == 1


@pytest.mark.parametrize(
    "status, body",
    [
        (400, {"displayName": "x"}),
        (400, {"displayName": "", "actions": {"delete": True}}),
        (400, {"displayName": "x", "actions": {"delete": "yes"}}),
        (400, {"displayName": "x", "actions": {"nothing": 1}}),
        (400, {"displayName": "x", "sequence": "1", "actions": {"delete": True}}),
        (400, {"displayName": "x", "actions": {"moveToFolder": "abc"}}),
        (400, {"displayName": "x", "actions": {"delete": True}, "conditions": {"subjectContains": "x"}}),
        (501, {"displayName": "x", "actions": {"forwardTo": [{"emailAddress": {"address": "a@b.test"}}]}}),
        (501, {"displayName": "x", "actions": {"delete": True}, "conditions": {"isSigned": True}}),
    ],
)
def test_invalid_rules_are_refused(user, status, body):
    user.expect_error(status, RULES, "POST", json=body)
    assert user.get(RULES)["value"] == []


def test_only_the_inbox_has_rules(user):
    """Documented in the messageRule resource. The error for other folders is an inference."""
    user.expect_error(400, "mailFolders/archive/messageRules")
    child = user.post("mailFolders/inbox/childFolders", {"displayName": "Invoices"})
    user.expect_error(400, f"mailFolders/inbox/childFolders/{child['id']}/messageRules")
    user.expect_error(400, f"mailFolders/inbox/childFolders/{child['id']}/messageRules", "POST", json={})


@pytest.mark.parametrize("action", ["moveToFolder", "copyToFolder"])
def test_a_rule_cannot_fill_a_search_folder(user, action):
    folder = user.post("mailFolders", {"displayName": "Unread", "filterQuery": "isRead eq false"})
    rule = {"displayName": "Rule", "sequence": 1, "actions": {action: folder["id"]}}
    assert user.expect_error(400, RULES, "POST", json=rule)["code"] == "ErrorInvalidOperation"
