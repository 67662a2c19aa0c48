"""The README's table of what answers 501 is exact: each name in it is requested here, and answers 501.

RFC 9110, section 15.6.2, defines 501. The operations of mail and subscriptions are those of Microsoft's
OpenAPI description of Graph v1.0. The methods are those of
"Gmail API", https://developers.google.com/workspace/gmail/api/reference/rest
"Cloud Pub/Sub API", https://cloud.google.com/pubsub/docs/reference/rest
"Directory API", https://developers.google.com/workspace/admin/directory/reference/rest
"""

import re
from pathlib import Path

import httpx2
import pytest

from mailsim.gmail.methods import METHODS
from mailsim.graph.api import ROUTES
from mailsim.graph.errors import GraphError
from simulator.graph_types import document

README = (Path(__file__).parents[2] / "mailsim/README.md").read_text(encoding="utf-8")
MAIL = "https://mail.google.com/"
PUBSUB = "https://www.googleapis.com/auth/pubsub"
DIRECTORY = "https://www.googleapis.com/auth/admin.directory."
TOPIC, SUBSCRIPTION = "/v1/projects/mailsim/topics/table", "/v1/projects/mailsim/subscriptions/table"
HTTP_METHODS = ("get", "post", "put", "patch", "delete")
# Microsoft's description, in short: the methods of each path below a folder, a message and a user.
MESSAGE_ACTIONS = (
    "copy createForward createReply createReplyAll forward move permanentDelete reply replyAll send"
)
MESSAGES = {
    "": "get post",
    "/$count": "get",
    "/delta": "get",
    "/*": "get patch delete",
    "/*/$value": "get put delete",
    "/*/attachments": "get post",
    "/*/attachments/*": "get delete",
    "/*/attachments/$count": "get",
    "/*/attachments/createUploadSession": "post",
    "/*/extensions": "get post",
    "/*/extensions/*": "get patch delete",
    "/*/extensions/$count": "get",
    **{f"/*/{action}": "post" for action in MESSAGE_ACTIONS.split()},
}
FOLDERS = {"": "get post", "/$count": "get", "/delta": "get", "/*": "get patch delete"}
FOLDERS |= {f"/*/{action}": "post" for action in ("copy", "move", "permanentDelete")}
RULES = {"": "get post", "/$count": "get", "/*": "get patch delete"}
TOP, CHILDREN = "/users/*/mailFolders", "/users/*/mailFolders/*/childFolders"
DESCRIBED = {
    "/users/*/inferenceClassification": {"": "get patch"},
    "/users/*/inferenceClassification/overrides": RULES,
    TOP: FOLDERS,
    CHILDREN: FOLDERS,
    f"{TOP}/*/messageRules": RULES,
    f"{CHILDREN}/*/messageRules": RULES,
    "/users/*/messages": MESSAGES,
    f"{TOP}/*/messages": MESSAGES,
    f"{CHILDREN}/*/messages": MESSAGES,
    "/subscriptions": {"": "get post", "/*": "get patch delete", "/*/reauthorize": "post"},
}
OPERATIONS = {
    f"{method.upper()} {prefix}{path}"
    for prefix, paths in DESCRIBED.items()
    for path, methods in paths.items()
    for method in methods.split()
}


def list_rows() -> dict[str, str]:
    """Return the rows of the table by API."""
    table = README.partition("| API | 501 |")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ", 1) for line in table.splitlines()[2:]]
    return dict(rows)


def list_names(api: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", list_rows()[api]))


def is_routed(operation: str) -> bool:
    method, path = operation.split()
    try:
        ROUTES.find(method, path.replace("*", "x"), "v1.0")
    except GraphError:
        return False
    return True


def test_the_operations_are_those_of_microsofts_description():
    known = document()
    if known is None:
        pytest.skip("Microsoft's description is not on this machine")
    found = {
        f"{method.upper()} {re.sub(r'{[^}]*}', '*', path).replace('microsoft.graph.', '').replace('()', '')}"
        for path, item in known["paths"].items()
        for method in HTTP_METHODS
        if method in item
    }
    assert found == OPERATIONS


def test_the_readme_counts_what_is_answered():
    answered = {operation for operation in OPERATIONS if is_routed(operation)}
    assert f"{len(answered)} of the {len(OPERATIONS)} operations" in README
    assert f"all {len(METHODS)} methods" in README
    assert {operation.rpartition("/*")[2] for operation in OPERATIONS - answered} == {
        "/$value",
        "/childFolders/delta",
    }


@pytest.mark.parametrize("path", ["childFolders/delta", "childFolders/microsoft.graph.delta()"])
def test_a_delta_of_child_folders_says_that_it_is_not_simulated(sim, microsoft, address, path):
    """Microsoft's OpenAPI description has this function of child folders, the documentation does not:

    "mailFolder: delta", https://learn.microsoft.com/graph/api/mailfolder-delta
    """
    user = microsoft.connect(sim, address)
    assert "mailsim does not simulate" in user.expect_error(501, f"mailFolders/inbox/{path}")["message"]


def test_graph_messages_of_the_table(sim, microsoft, address):
    user = microsoft.connect(sim, address, "Mail.ReadWrite", messages=1)
    message = user.get("messages")["value"][0]["id"]
    functions = {"$filter", "contains", "startswith", "endswith", "tolower", "toupper"}
    assert list_names("Graph, messages") == {"$value", "PUT", "DELETE", *functions}
    user.expect_error(501, "messages", params={"$filter": "length(subject) gt 3"})
    for name in functions - {"$filter"}:
        test = f"{name}(subject) eq 'a'" if name.startswith("to") else f"{name}(subject,'a')"
        assert user.request("GET", "messages", params={"$filter": test}).status_code == 200
    for method in ("PUT", "DELETE"):
        user.expect_error(501, f"messages/{message}/$value", method)
    assert "links, events and contacts as attachments" in list_rows()["Graph, messages"]
    draft = user.post("messages", {})["id"]
    link = {"@odata.type": "#microsoft.graph.referenceAttachment", "name": "plan.docx"}
    for file in (link, *(make_item(name) for name in ("event", "contact"))):
        error = user.expect_error(501, f"messages/{draft}/attachments", "POST", json=file)
        assert "mailsim does not simulate" in error["message"]
        user.expect_error(501, "messages", "POST", json={"attachments": [file]})
    made_up = make_item("nothing")
    assert user.request("POST", f"messages/{draft}/attachments", json=made_up).status_code == 400


def make_item(name: str) -> dict[str, object]:
    """Return an item attachment of a type."""
    item = {"@odata.type": f"microsoft.graph.{name}"}
    return {"@odata.type": "#microsoft.graph.itemAttachment", "name": "item", "item": item}


def test_graph_folders_of_the_table(sim, microsoft, address):
    user = microsoft.connect(sim, address)
    assert list_names("Graph, folders") == {"$expand", "childFolders", "childFolders/delta"}
    for name in ("messages", "messageRules", "singleValueExtendedProperties($filter=id eq 'String 0x3001')"):
        user.expect_error(501, f"mailFolders/inbox?$expand={name}")
    assert "childFolders" in user.get("mailFolders/inbox?$expand=childFolders")


BETA_ACTIONS = ("markAsJunk", "markAsNotJunk", "reportMessage", "unsubscribe")


def test_beta_of_the_table(sim, microsoft, address):
    user = microsoft.connect(sim, address, messages=1)
    message = f"me/messages/{user.get('messages')['value'][0]['id']}"
    paths = {
        "mentions": ("GET", f"{message}/mentions"),
        **{name: ("POST", f"{message}/{name}") for name in BETA_ACTIONS},
        "operations": ("GET", "me/mailFolders/inbox/operations"),
        "userConfigurations": ("GET", "me/mailFolders/inbox/userConfigurations"),
        "updateAllMessagesReadState": ("POST", "me/mailFolders/inbox/updateAllMessagesReadState"),
        "profile": ("GET", "me/profile"),
        "analytics": ("GET", "me/analytics"),
    }
    assert list_names("Graph, `/beta`") == set(paths)
    for method, path in paths.values():
        user.expect_error(501, f"{sim.http}/beta/{path}", method)


def test_the_rest_of_graph_in_the_table(sim, microsoft, address):
    user = microsoft.connect(sim, address, "User.Read.All", "GroupMember.Read.All")
    sim.post("microsoft/groups", mail="all@example.com", members=[address])
    [group] = user.get("/groups")["value"]
    advanced = {"ConsistencyLevel": "eventual"}
    paths = {
        "$search": ['/users?$search="displayName:a"', '/groups?$search="displayName:a"'],
        "delta": ["/users/delta", "/groups/delta"],
        "$filter": [f"/groups/{group['id']}/members?$filter=startswith(displayName,'a')"],
        "$orderby": [f"/groups/{group['id']}/transitiveMembers?$orderby=displayName"],
        "manager": ["manager"],
        "memberOf": ["memberOf"],
        "outlook": ["outlook", "outlook/supportedTimeZones"],
        "$metadata": ["/$metadata"],
    }
    assert list_names("Graph, others") == {*paths, "masterCategories"}
    for path in [path for several in paths.values() for path in several]:
        user.expect_error(501, path, headers=advanced)
    for method, path in (("POST", "/users"), ("PATCH", f"/users/{address}"), ("POST", "/groups")):
        user.expect_error(501, path, method, json={})


def test_gmail_and_pubsub_of_the_table(sim, google, address):
    user = google.connect(sim, address, MAIL, PUBSUB)
    assert list_rows()["Gmail"] == "filters that forward"
    for path, body in ((TOPIC, {}), (SUBSCRIPTION, {"topic": TOPIC.removeprefix("/v1/")})):
        assert user.request("PUT", path, json=body).status_code == 200
    names = {"seek": ("POST", f"{SUBSCRIPTION}:seek"), "detach": ("POST", f"{SUBSCRIPTION}:detach")}
    assert list_names("Pub/Sub") == {*names, "patch"}
    rest = [("PATCH", TOPIC), ("PATCH", SUBSCRIPTION), ("GET", "/v1/projects/mailsim/snapshots")]
    for method, path in [*names.values(), *rest, ("GET", "/v1/projects/mailsim/schemas")]:
        user.expect_error(501, path, method, json={})
    topic = TOPIC.removeprefix("/v1/")
    for name in ("enableMessageOrdering", "enableExactlyOnceDelivery", "filter", "bigqueryConfig"):
        user.expect_error(501, f"{SUBSCRIPTION}2", "PUT", json={"topic": topic, name: "x"})
    for name in ("kmsKeyName", "schemaSettings", "messageStoragePolicy", "ingestionDataSourceSettings"):
        user.expect_error(501, f"{TOPIC}2", "PUT", json={name: "x"})


def test_the_directory_of_the_table(sim, google, address):
    user = google.connect(sim, address, DIRECTORY + "user.readonly", DIRECTORY + "group.readonly")
    sim.post(f"google/accounts/{address}/admin", admin=True)
    base = "/admin/directory/v1"
    domain = address.partition("@")[2]
    sim.post("google/groups", email=f"all-{address}", members=[{"email": address}])
    paths = {
        "users.list": f"{base}/users?domain={domain}",
        "users.get": f"{base}/users/{address}",
        "groups.list": f"{base}/groups?domain={domain}",
        "members.list": f"{base}/groups/all-{address}/members",
    }
    assert list_names("Admin SDK") == {*paths, "query"}
    for path in paths.values():
        assert user.request("GET", path).status_code == 200
    user.expect_error(501, f"{base}/groups?domain={domain}&query=email:a*")
    user.expect_error(501, f"{base}/customer/my_customer/orgunits")


def test_sign_in_of_the_table(sim):
    """MSAL asks for the user realm before it sends a password; the other paths are documented in

    "OpenID Connect on the Microsoft identity platform",
    https://learn.microsoft.com/entra/identity-platform/v2-protocols-oidc
    """
    version_1 = {f"oauth2/{name}" for name in ("authorize", "token", "devicecode")}
    names = {"openid/userinfo", "userrealm", "GetCredentialType", *version_1}
    listed = {name.removeprefix("/{tenant}/") for name in list_names("Sign-in")}
    assert {f"oauth2/{name}" if f"oauth2/{name}" in version_1 else name for name in listed} == names
    for name in names - {"userrealm"} | {"userrealm/bob@example.com"}:
        answer = httpx2.get(f"{sim.http}/common/{name}", trust_env=False)
        assert answer.status_code == 501
        assert "mailsim does not simulate" in answer.text
