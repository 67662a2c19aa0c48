"""A certificate authority made at start, for this run only. Its files lie in a private directory that dies
with it.
"""

import contextlib
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import trustme

from mailsim.errors import Invalid

# The providers' real names, so that clients whose names are redirected to loopback trust the answer.
NAMES = (
    "localhost",
    "127.0.0.1",
    "::1",
    "graph.microsoft.com",
    "login.microsoftonline.com",
    "login.microsoft.com",
    "sts.windows.net",
    "outlook.office365.com",
    "gmail.googleapis.com",
    "www.googleapis.com",
    "oauth2.googleapis.com",
    "openidconnect.googleapis.com",
    "pubsub.googleapis.com",
    "accounts.google.com",
)


@dataclass(frozen=True, slots=True)
class Certificates:
    """`ca`: what clients trust. `server`: key and chain in one file."""

    ca: Path
    server: Path


@contextlib.contextmanager
def certificates(*more_names: str) -> Generator[Certificates]:
    try:
        private = tempfile.TemporaryDirectory(prefix="mailsim-")
    except OSError as error:
        raise Invalid(f"no place for certificates: {error.strerror or error}; set TMPDIR") from error
    with private as directory:
        made = Certificates(Path(directory, "ca.pem"), Path(directory, "server.pem"))
        authority = trustme.CA(organization_name="mailsim")
        try:
            leaf = authority.issue_cert(*dict.fromkeys((*NAMES, *more_names)), organization_name="mailsim")
        except UnicodeError as error:
            raise Invalid(f"no certificate can name {', '.join(more_names)}") from error
        authority.cert_pem.write_to_path(made.ca)
        leaf.private_key_and_cert_chain_pem.write_to_path(made.server)
        yield made
