"""Pulls a simulated mailbox with lieer, a Gmail client for notmuch.

lieer needs the C library of notmuch, and therefore its own environment. Only the URL of Gmail is patched.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

_PULL = """
import json, sys
from googleapiclient import discovery
from googleapiclient.discovery_cache import get_static_doc
from lieer import Gmailieer

url, *command = sys.argv[1:]

def build(name, version, credentials):
    document = json.loads(get_static_doc(name, version))
    document |= {"rootUrl": f"{url}/", "baseUrl": f"{url}/"}
    return discovery.build_from_document(document, credentials=credentials)

discovery.build = build
sys.argv = ["gmi", *command]
Gmailieer().main()
"""
_MAKE = "import notmuch2, sys; notmuch2.Database.create(sys.argv[1])"


def python_with_lieer(given: str | None) -> str | None:
    """The Python that was named, else this one, where lieer is installed in it."""
    return given or (sys.executable if find_spec("lieer") else None)


def pull(python: str, home: Path, url: str, address: str, token: str) -> subprocess.Popen[bytes]:
    """Make an empty notmuch database, and begin to fill it."""
    place = home / "lieer" / "account"
    place.mkdir(parents=True)
    config = home / "notmuch-config"
    config.write_text(f"[database]\npath={home / 'lieer'}\n[new]\ntags=new\n", encoding="utf-8")
    environment = os.environ | {"NOTMUCH_CONFIG": str(config)}
    for command in (["-c", _MAKE, str(home / "lieer")], ["-c", _PULL, url, "init", "--no-auth", address]):
        subprocess.run([python, *command], cwd=place, env=environment, check=True, stdout=subprocess.DEVNULL)
    credentials = {
        "token": token,
        "refresh_token": "none",
        "client_id": "none",
        "client_secret": "none",
        "expiry": "2099-01-01T00:00:00Z",
    }
    (place / ".credentials.gmailieer.json").write_text(json.dumps(credentials), encoding="utf-8")
    command = [python, "-c", _PULL, url, "pull", "--no-progress"]
    return subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.DEVNULL)


def pulled(home: Path) -> int:
    """Messages that it has written."""
    return sum(1 for _ in (home / "lieer/account/mail").rglob("*:2,*"))
