"""Run the demo of a released version, and keep its backup and keys as one archive.

    python tests/upgrades/make_home.py SOURCE_TREE COMMIT FOLDER

The rows are written by that version: its demo syncs two simulated mailboxes and reads their documents, its
commands add the rest. Only the two work states that a quiet system lacks are set with SQL.
"""

import lzma
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from postroom.store.embedded import binaries, database_home

MESSAGES = 40
DEMO = (
    "import sys; from postroom.cli import demo, run;"
    f" demo._MESSAGES = {MESSAGES}; sys.argv[1:] = ['demo', '--port', '0']; sys.exit(run())"
)
KEPT = ("postroom.sql", "vault.keys", "ledger.key", "ledger.public", "conversation.json")
ORDERS = "reference,username,isin,direction,quantity,trade_date\nO-4711,ann,US0378331005,buy,100,2026-02-04\n"
FILLED = f"""
    SELECT (SELECT count(*) FROM messages) >= 2 * {MESSAGES}
       AND (SELECT count(*) FROM records) >= 3
       AND (SELECT count(*) FROM reviews WHERE decided_at IS NULL) >= 3
       AND (SELECT count(*) FROM seals) >= 1
"""
PARK = """
    UPDATE work SET due_at = NULL, attempts = 8, last_error = 'failed too often' {parked}
    WHERE id = (SELECT min(id) FROM work)
"""
LEASE = """
    UPDATE work SET lease_token = gen_random_uuid(), leased_until = now() + interval '1 hour' {leased}
    WHERE id = (SELECT max(id) FROM work)
"""
FIRST_WITH_RECORD_VERSIONS = 59
FIRST_WITH_COMMENTS = 60
FIRST_WITH_NOTICES = 69


class OldPostroom:
    """The commands of one version on one home."""

    def __init__(self, tree: Path, folder: Path, **settings: str) -> None:
        self.folder, self.home = folder, folder / ".demo"
        sources = [tree / "src", tree / "mailsim" / "src", *filter(None, [os.getenv("EXTRA_PATH")])]
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("POSTROOM_")},
            "PYTHONPATH": os.pathsep.join(str(source) for source in sources),
        } | settings

    def start_demo(self) -> subprocess.Popen[bytes]:
        return self._start([sys.executable, "-c", DEMO], self.environment)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command that runs until it is stopped."""
        return self._start([sys.executable, "-m", "postroom", *arguments], self.with_home)

    def _start(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        with self.log.open("wb") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, process_group=0
            )

    @property
    def log(self) -> Path:
        return self.folder / "postroom.log"

    @property
    def with_home(self) -> dict[str, str]:
        return self.environment | {"POSTROOM_HOME": str(self.home)}

    def __call__(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "postroom", *arguments]
        done = subprocess.run(command, env=self.with_home, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{arguments}: {done.stderr or done.stdout}")
        return done.stdout

    def query(self, statement: str) -> str:
        return self("db", "psql", "-Atqc", statement).strip()


def wait_for(is_reached: Callable[[], bool], what: str) -> None:
    for _ in range(200):
        if is_reached():
            return
        time.sleep(3)
    raise RuntimeError(f"timed out: {what}")


def wait_for_start(postroom: OldPostroom) -> None:
    wait_for(
        lambda: re.search(r"^Postroom: http", postroom.log.read_text(), re.MULTILINE) is not None, "the start"
    )


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(120)


def wait_for_server_stop(postroom: OldPostroom) -> None:
    """Wait for the supervisor: it creates lock files again in a home that is being removed."""
    lock = postroom.home / "postgres" / "supervisor.lock"
    held = database_home.take_lock(lock, database_home.EXCLUSIVE, time.monotonic() + 60)
    if held is None:
        raise RuntimeError(f"timed out: the supervisor still holds {lock}")
    os.close(held)


def fill(postroom: OldPostroom) -> None:
    """Add what the demo itself does not: a decision, orders, a member, a key, a webhook, a purge, a pause."""
    wait_for_start(postroom)
    postroom("webhooks", "add", "https://app.example.org/hooks")
    postroom("members", "add", "ann@example.org", "--role", "reviewer")
    postroom("api-keys", "create", "reporting", "--scope", "read")
    (postroom.folder / "orders.csv").write_text(ORDERS)
    postroom("orders", "import", str(postroom.folder / "orders.csv"), "--kind", "contract-note")
    wait_for(lambda: postroom.query(FILLED) == "t", "mail and documents")
    reviews = "SELECT document_id FROM reviews WHERE decided_at IS NULL ORDER BY id"
    rejected, *undecided = postroom.query(reviews).splitlines()
    postroom("documents", "reject", rejected, "--reason", "not ours")
    fill_newer_tables(postroom, undecided[0])
    sender = postroom.query("SELECT lower(from_address) FROM messages WHERE from_address <> '' LIMIT 1")
    postroom("purge", "person", sender, "--yes")
    postroom("mailboxes", "pause", postroom.query("SELECT id FROM mailboxes ORDER BY address DESC LIMIT 1"))


def fill_newer_tables(postroom: OldPostroom, document: str) -> None:
    """Add a correction, a comment and a destination of notices, with a version that has their commands."""
    schema = read_schema(postroom)
    if schema >= FIRST_WITH_RECORD_VERSIONS:
        record = postroom.query("SELECT id FROM records WHERE kind = 'invoice' ORDER BY id LIMIT 1")
        postroom("records", "correct", record, "--set", "purchase_order=B70496", "--reason", "misread")
    if schema >= FIRST_WITH_COMMENTS:
        postroom("documents", "comment", document, "Ask the supplier about the discount.")
    if schema >= FIRST_WITH_NOTICES:
        (postroom.folder / "url.txt").write_text("https://chat.example.org/hooks/1")
        postroom("notices", "add", "slack", "--url-file", str(postroom.folder / "url.txt"))


def set_work_states(postroom: OldPostroom) -> None:
    has_state = postroom.query(
        "SELECT count(*) FROM pg_attribute WHERE attrelid = 'work'::regclass AND attname = 'state'"
    )
    parked, leased = (", state = 'parked'", ", state = 'leased'") if has_state == "1" else ("", "")
    postroom.query(PARK.format(parked=parked))
    postroom.query(LEASE.format(leased=leased))


def read_schema(postroom: OldPostroom) -> int:
    return int(postroom.query("SELECT max(version) FROM schema_migrations"))


def back_up(postroom: OldPostroom) -> None:
    """Back up as plain SQL, which packs to half the size of the backup's own format."""
    home = postroom.home
    postroom("db", "backup", str(home / "postroom.backup"))
    pg_restore = binaries.find_binaries().program("pg_restore")
    subprocess.run(
        [pg_restore, "--no-owner", "-f", home / "postroom.sql", home / "postroom.backup"], check=True
    )


def pack(postroom: OldPostroom, archive: Path) -> Path:
    with tarfile.open(archive, "w:xz", preset=9 | lzma.PRESET_EXTREME) as packed:
        for name in KEPT:
            if (postroom.home / name).exists():
                packed.add(postroom.home / name, name)
    return archive


def make(tree: Path, commit: str, target: Path) -> Path:
    with tempfile.TemporaryDirectory(prefix="postroom-") as folder:
        postroom = OldPostroom(tree, Path(folder))
        demo = postroom.start_demo()
        try:
            fill(postroom)
        finally:
            stop(demo)
        set_work_states(postroom)
        back_up(postroom)
        archive = pack(postroom, target / f"schema-{read_schema(postroom):04}-{commit}.tar.xz")
        wait_for_server_stop(postroom)
        return archive


if __name__ == "__main__":
    print(make(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
