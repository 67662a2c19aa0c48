"""AWS as a process on loopback: moto's server, and credentials that mean nothing elsewhere."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


@contextmanager
def server() -> Generator[str]:
    """The address of a moto that runs while this is open."""
    command = [sys.executable, "-u", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    found = None
    while found is None:
        line = process.stderr.readline()
        assert line, "moto's server ended"
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
    threading.Thread(target=process.stderr.read, daemon=True).start()
    try:
        yield found[0]
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
