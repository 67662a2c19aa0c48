"""Google Cloud Storage on loopback: the emulator's server, and a client without credentials."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from gcp_storage_emulator.server import create_server


@contextmanager
def server() -> Generator[str]:
    """The address of an emulator that runs while this is open."""
    started = create_server("127.0.0.1", 0, in_memory=True)
    started.start()
    try:
        host, port = started._api._httpd.socket.getsockname()
        yield f"http://{host}:{port}"
    finally:
        started.stop()


def client(url: str) -> Any:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    return storage.Client(
        project="tests", credentials=AnonymousCredentials(), client_options={"api_endpoint": url}
    )
