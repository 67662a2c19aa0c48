"""K5: everything runs with marked data, at the finest log level, and nothing of it is in any output."""

import json
import urllib.request
from contextlib import closing

import databases
from postroom.store import embedded, schema_migrations
from scenarios.postroom_process import PostroomProcess, fetch, wait_until

MARK = "m4rk3d"
MARKED_ERROR = f"""
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.lease_token IS NULL AND OLD.lease_token IS NOT NULL AND NEW.last_error IS NULL THEN
            RAISE EXCEPTION 'no place for {MARK}@example.org';
        END IF;
        RETURN NEW;
    END $$
"""


async def provide(url):
    """Marked rows wherever a name or an address can stand, and a server whose errors are marked too."""
    async with databases.session(url) as owner:
        cursor = await owner.execute(
            "INSERT INTO organizations (name) VALUES (%s) RETURNING id", [f"{MARK} Ltd"]
        )
        [[organization]] = await cursor.fetchall()
        await owner.execute(
            "INSERT INTO work (organization_id, kind, subject, due_at)"
            " VALUES (%s, 'collect_garbage', %s, now())",
            [organization, f"{MARK}@example.org"],
        )
        await owner.execute(
            "INSERT INTO work (organization_id, kind, subject, due_at) VALUES (%s, %s, 'x', now())",
            [organization, MARK],
        )
        await owner.execute(MARKED_ERROR)
        await owner.execute("CREATE TRIGGER fail BEFORE UPDATE ON work FOR EACH ROW EXECUTE FUNCTION fail()")


def ask_marked(url):
    """Requests that carry the mark in everything a client chooses."""
    for path in (f"/?q={MARK}", f"/{MARK}", f"/static/{MARK}", "/readyz", "/"):
        fetch(url + path)
    headers = {
        "User-Agent": MARK,
        "Cookie": f"session={MARK}",
        "Authorization": f"Bearer {MARK}",
        "Host": MARK,
    }
    for method in ("POST", "DELETE", MARK.upper()):
        request = urllib.request.Request(url, MARK.encode(), headers, method=method)
        try:
            urllib.request.urlopen(request, timeout=10).close()
        except urllib.error.HTTPError as error:
            error.close()
    with closing(urllib.request.http.client.HTTPConnection(url.removeprefix("http://"))) as broken:
        broken.connect()
        broken.sock.sendall(f"{MARK} {MARK} nonsense\r\n\r\n".encode())
        broken.sock.recv(1000)


def failures(said):
    lines = [json.loads(line) for line in said if line.startswith('{"timestamp')]
    return [line for line in lines if line["event"] == "work.failed"]


async def test_no_output_of_any_process_holds_personal_data(tmp_path):
    said = []
    with embedded.start_or_join(tmp_path / "home") as attachment:
        await schema_migrations.migrate(attachment.url)
        await provide(attachment.url)
        url = attachment.url.replace("postroom@", f"postroom:{MARK}@")
        settings = {"POSTROOM_DATABASE_URL": url, "POSTROOM_LOG_LEVEL": "debug", "POSTROOM_PORT": "0"}
        for command in (
            ("config", "show"),
            ("db", "status"),
            ("db", "status", "--json"),
            ("doctor",),
            ("db", "migrate"),
        ):
            with PostroomProcess(tmp_path, *command, **settings) as program:
                program.wait()
            said += program.said
        with PostroomProcess(tmp_path, "up", **settings) as program:
            ask_marked(program.line("Postroom: "))
            wait_until(lambda: failures(program.said))
            assert program.end() == 0
        said += program.said
    assert failures(said)[0]["error"] == "RaiseException"
    assert len([line for line in said if "request.served" in line]) >= 5
    assert [line for line in said if MARK in line.lower()] == []
    assert [line for line in said if '"refused":' in line or "[refused]" in line] == []
    assert MARK not in (tmp_path / "home/postgres/server.log").read_text().lower()
