"""Issues the TLS certificates of one run: a new authority and the server's, in temporary files."""

import contextlib
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import trustme

from mailsim.errors import InvalidRequest

# Include the providers' real host names, for clients that resolve them to loopback.
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
    "admin.googleapis.com",
    "people.googleapis.com",
    "accounts.google.com",
)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """`ca` is the certificate that clients trust; `server` holds key and chain in one file."""

    ca: Path
    server: Path


@contextlib.contextmanager
def issue_certificates(*more_names: str) -> Generator[TlsFiles]:
    """Issue certificates into a private directory that is removed at the end of the block."""
    try:
        private = tempfile.TemporaryDirectory(prefix="mailsim-")
    except OSError as error:
        raise InvalidRequest(f"cannot write certificates: {error.strerror or error}; set TMPDIR") from error
    with private as directory:
        files = TlsFiles(Path(directory, "ca.pem"), Path(directory, "server.pem"))
        authority = trustme.CA(organization_name="mailsim")
        try:
            leaf = authority.issue_cert(*dict.fromkeys((*NAMES, *more_names)), organization_name="mailsim")
        except UnicodeError as error:
            raise InvalidRequest(f"cannot issue a certificate for {', '.join(more_names)}") from error
        authority.cert_pem.write_to_path(files.ca)
        leaf.private_key_and_cert_chain_pem.write_to_path(files.server)
        yield files
