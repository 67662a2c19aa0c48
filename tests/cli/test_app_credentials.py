"""C2: the options of `--app-only` are checked before anything is opened, and every error names a remedy."""

import pytest

from postroom.cli.app_credentials import AppOnlyOptions, read_options
from postroom.errors import OperatorError, PostroomError, SettingsError
from postroom.flow.mailboxes.connect import DEFAULT_APP_FOLDER

TENANT = "72f90000-0000-4000-8000-00000000001a"
CLIENT = "0b1c0000-0000-4000-8000-000000000009"


@pytest.fixture
def given(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("a secret\n")
    return AppOnlyOptions(TENANT, CLIENT, "Invoices@example.org", secret, None, DEFAULT_APP_FOLDER)


def test_secret_file_is_read_without_its_line_break(given):
    credential, address, folder = read_options(given)
    assert (credential.tenant_id, credential.client_id, credential.certificate) == (TENANT, CLIENT, None)
    assert credential.client_secret.reveal() == "a secret"
    assert (address, folder) == ("invoices@example.org", "Inbox")


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("tenant", None, "--tenant"),
        ("tenant", "common", "one tenant"),
        ("tenant", "a/b", "one tenant"),
        ("client_id", "a b", "a GUID"),
        ("mailbox", "x", "one email address"),
        ("mailbox", "a@example.org/../b", "one email address"),
        ("folder", "a'b", "well-known name"),
        ("secret_file", None, "either --secret-file or --certificate"),
    ],
)
def test_invalid_options_are_rejected(given, name, value, words):
    with pytest.raises(SettingsError, match=words):
        read_options(given._replace(**{name: value}))


@pytest.mark.parametrize("content, words", [(b"", "is empty"), (b"\xff\xfe", "not a text file")])
def test_file_without_a_secret_is_rejected(given, content, words):
    given.secret_file.write_bytes(content)
    with pytest.raises(OperatorError, match=words):
        read_options(given)


def test_missing_file_is_rejected(given, tmp_path):
    with pytest.raises(OperatorError, match="cannot be read: no such file"):
        read_options(given._replace(secret_file=tmp_path / "missing"))


@pytest.mark.parametrize(
    "content", ["nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_certificate_without_its_key_is_rejected_and_not_shown(given, tmp_path, content):
    file = tmp_path / "certificate.pem"
    file.write_text(content)
    with pytest.raises(PostroomError, match="a certificate and its unencrypted private key") as caught:
        read_options(given._replace(secret_file=None, certificate=file))
    assert "AAAA" not in str(caught.value)
