"""`postroom webhooks` and `postroom api-keys` as a person uses them."""

import http.server
import json
import threading

import pytest

import databases


@pytest.fixture
def run(postroom, database_url):
    given = {**databases.login_settings(database_url), "POSTROOM_WEBHOOK_NETWORKS": "127.0.0.0/8"}
    return lambda *arguments: postroom(*arguments, **given)


@pytest.fixture
def receiver():
    """The address of a program that accepts everything."""

    class Accepting(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Accepting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/hook"
        server.shutdown()


def test_webhooks_are_added_tested_replayed_and_removed(run, receiver):
    added = run("webhooks", "add", receiver, "--kind", "document.*", "--format", "cloudevents")
    assert added.stdout.startswith("whsec_"), added.stderr
    [listed] = json.loads(run("webhooks", "list", "--json").stdout)
    assert (listed["url"], listed["kinds"], listed["format"]) == (receiver, ["document.*"], "cloudevents")
    assert " ok " in run("webhooks", "list").stdout
    assert run("webhooks", "test", listed["id"][:8]).stdout == "Accepted.\n"
    assert run("webhooks", "replay", receiver, "--after", "0").returncode == 0
    assert (
        "Position 5 is not in the feed. Choose one from 0 to 0."
        in run("webhooks", "replay", receiver, "--after", "5").stderr
    )
    assert run("webhooks", "disable", listed["id"]).stdout == "Disabled.\n"
    assert "disabled" in run("webhooks", "list").stdout
    assert run("webhooks", "enable", receiver).stdout == "Enabled.\n"
    assert " ok " in run("webhooks", "list").stdout
    assert run("webhooks", "remove", listed["id"]).stdout == "Removed.\n"
    assert "No such webhook" in run("webhooks", "test", receiver).stderr
    assert "such as https" in run("webhooks", "add", "nonsense").stderr


def test_api_keys_are_created_listed_and_revoked(run):
    key = run("api-keys", "create", "reporting", "--scope", "read", "--days", "30").stdout.strip()
    assert key.startswith("pr_")
    [listed] = json.loads(run("api-keys", "list", "--json").stdout)
    assert key.startswith(listed["prefix"])
    assert key not in run("api-keys", "list").stdout
    assert run("api-keys", "revoke", listed["name"]).stdout == "Revoked.\n"
    assert "revoked" in run("api-keys", "list").stdout
    assert "No such key" in run("api-keys", "revoke", listed["prefix"]).stderr


def test_api_key_can_record_its_calls(run, tmp_path):
    made = json.loads(run("api-keys", "create", "assistant", "--record-calls", "--json").stdout)
    assert made["records_calls"]
    missing = run("mcp", "--key-file", str(tmp_path / "nothing"))
    assert "Cannot read the key file" in missing.stderr
    assert "No such file or directory" in missing.stderr
