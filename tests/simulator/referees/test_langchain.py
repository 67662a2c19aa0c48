"""langchain-google-community: signs in with a browser, searches, reads, drafts and sends over Gmail."""

from collections.abc import Callable

import pytest

from simulator.driver import Simulation
from simulator.referees.google_files import make_client_secret
from simulator.referees.mime_truth import read_texts
from simulator.referees.referee import Prepare

pytestmark = pytest.mark.soak

ADDRESS, FRIEND = "chain@example.com", "friend@example.org"
PROGRAM = """
import json, sys
from langchain_google_community import GmailToolkit
from langchain_google_community.gmail.utils import build_gmail_service
from langchain_google_community._utils import get_google_credentials

credentials = get_google_credentials(
    token_file="token.json", scopes=["https://mail.google.com/"], client_secrets_file="credentials.json"
)
toolkit = GmailToolkit(api_resource=build_gmail_service(credentials=credentials))
tools = {tool.name: tool for tool in toolkit.get_tools()}
found = tools["search_gmail"].invoke({"query": "in:inbox", "max_results": 500})
threads = tools["search_gmail"].invoke({"query": "in:inbox", "resource": "threads", "max_results": 500})
one = tools["get_gmail_message"].invoke({"message_id": found[0]["id"]})
thread = tools["get_gmail_thread"].invoke({"thread_id": found[0]["threadId"]})
tools["create_gmail_draft"].invoke({"message": "Not yet.", "to": [sys.argv[1]], "subject": "Later"})
sent = tools["send_gmail_message"].invoke(
    {"message": "<p>Here it is.</p>", "to": sys.argv[1], "subject": "Report", "bcc": "hidden@example.net"}
)
print(json.dumps({"found": found, "threads": threads, "one": one, "thread": thread, "sent": sent}))
"""


def test_langchain_signs_in_searches_drafts_and_sends(
    start: Callable[..., Simulation], python_referee: Prepare
):
    sim = start("--quota", "off")
    sim.create("gmail", ADDRESS, messages=120)
    sim.create("gmail", FRIEND)
    sim.control.patch("google/options", json={"auto_consent": True})
    langchain = python_referee(sim, "langchain")
    langchain.write_json("credentials.json", make_client_secret(sim))
    seen = langchain.python(PROGRAM, FRIEND)

    inbox = {
        entry["id"]: entry
        for entry in sim.truth(ADDRESS)
        if "INBOX" in entry["folders"] and not {"SPAM", "TRASH"} & set(entry["folders"])
    }
    assert {message["id"]: message["threadId"] for message in seen["found"]} == {
        key: entry["thread"] for key, entry in inbox.items()
    }
    assert {thread["id"] for thread in seen["threads"]} == {entry["thread"] for entry in inbox.values()}
    compared = 0
    for message in seen["found"]:
        texts = read_texts(sim.raw(ADDRESS, message["id"]))
        if texts and texts[0].isascii() and "<" not in texts[0] and "&" not in texts[0]:  # it strips HTML
            assert message["body"] == texts[0]
            compared += 1
    assert compared > 20
    assert seen["one"]["id"] == seen["found"][0]["id"]
    assert seen["one"]["id"] in {message["id"] for message in seen["thread"]["messages"]}
    after = sim.truth(ADDRESS)
    assert [entry["subject"] for entry in after if entry["draft"]][-1] == "Later"
    [arrived] = sim.truth(FRIEND)
    assert arrived["subject"] == "Report"
    raw = sim.raw(FRIEND, arrived["id"])
    assert b"<p>Here it is.</p>" in raw
    assert b"hidden@example.net" not in raw
    assert after[-1]["id"] in seen["sent"]
