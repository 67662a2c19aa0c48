"""`postroom notices` as a person uses it."""

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
def slack():
    """The URL of a program that answers with `status`."""

    class Answering(http.server.BaseHTTPRequestHandler):
        status = 200

        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(Answering.status)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/services/hidden", Answering
        server.shutdown()


def test_notices_are_added_listed_tested_and_removed(run, slack, tmp_path):
    url, program = slack
    file = tmp_path / "url.txt"
    file.write_text(url + "\n")
    quiet = ["--quiet", "22:00-07:00", "--time-zone", "Europe/Berlin"]
    given = ["--url-file", str(file), "--name", "Team", "--kind", "audit_failed", *quiet]
    added = run("notices", "add", "slack", *given)
    assert added.stdout.startswith("Added "), added.stderr
    [listed] = json.loads(run("notices", "list", "--json").stdout)
    assert (listed["medium"], listed["kinds"], listed["quiet_from"]) == ("slack", ["audit_failed"], "22:00")
    assert "hidden" not in str(listed)
    assert run("notices", "test", "Team").stdout == "Sent.\n"
    program.status = 404
    assert "Not sent: the receiver returned status 404." in run("notices", "test", listed["id"][:8]).stderr
    assert "failing" in run("notices", "list").stdout
    [check] = [check for check in json.loads(run("doctor", "--json").stdout) if check["name"] == "notices"]
    assert (check["state"], "status 404" in check["found"]) == ("warn", True)
    assert run("notices", "remove", "Team").stdout == "Removed.\n"
    assert "No such destination" in run("notices", "test", "Team").stderr
    assert "POSTROOM_SMTP_URL" in run("notices", "add", "email", "ap@example.com").stderr
