"""Pipelines are declared in one file, and all its errors are reported at once."""

import pytest

from postroom.documents import pipelines
from postroom.errors import SettingsError
from postroom.model import FolderRole

KINDS = {"invoice", "contract-note"}


def parse(text: str) -> pipelines.Pipelines:
    return pipelines.parse(text, place="pipelines.toml", kinds=KINDS)


def test_two_pipelines_are_built_in():
    assert set(pipelines.load(None, kinds=KINDS)) == {"invoices", "contract-notes"}


def test_every_error_is_reported_with_its_key():
    with pytest.raises(SettingsError) as caught:
        parse("""
            stray = 1
            [a]
            kind = "poem"
            [b]
            confirm_above = 3
            colour = "red"
            [c]
            kind = "poem"
            name = "other"
            archive = "no"
            confirm_above = true
            watch_seconds = "30"
            senders = "*@example.org"
        """)
    message = str(caught.value)
    assert "stray: must be a table" in message
    assert "a.kind: 'poem' is not a document kind; installed: contract-note, invoice" in message
    assert "b.kind: is missing" in message
    assert "b.confirm_above" in message
    assert "b.colour: is not a key of a pipeline" in message
    assert "c.kind: 'poem' is not a document kind" in message
    assert "c.name: is not a key of a pipeline" in message
    assert "c.archive: must be true or false" in message
    assert "c.confirm_above: must be a number" in message
    assert "c.watch_seconds: must be a number" in message
    assert "c.senders: must be a list" in message


def test_whole_numbers_are_numbers_and_lists_are_lists():
    [made] = parse('[a]\nkind = "invoice"\nconfirm_above = 1\nfolders = ["inbox"]').values()
    assert (made.name, made.confirm_above, made.folders) == ("a", 1, ("inbox",))


@pytest.mark.parametrize(
    "text, words",
    [
        ("[broken", "is not valid TOML"),
        ("", "declares no pipeline"),
    ],
)
def test_an_unusable_file_is_reported_with_the_reason(text, words):
    with pytest.raises(SettingsError, match=words):
        parse(text)


def test_a_missing_file_error_names_the_setting(tmp_path):
    with pytest.raises(SettingsError, match="POSTROOM_PIPELINES"):
        pipelines.load(tmp_path / "none.toml", kinds=KINDS)


def test_received_mail_is_accepted_unless_folders_are_named():
    everything = parse('[a]\nkind = "invoice"')["a"]
    assert everything.takes_folder(["Clients/Acme"], [])
    assert not everything.takes_folder(["Junk"], [FolderRole.SPAM])
    some = parse('[a]\nkind = "invoice"\nfolders = ["spam", "Rechnungen"]')["a"]
    assert some.takes_folder(["Junk"], [FolderRole.SPAM])
    assert some.takes_folder(["rechnungen"], [])
    assert not some.takes_folder(["Inbox"], [FolderRole.INBOX])


def test_senders_and_mailboxes_are_patterns():
    pipeline = parse('[a]\nkind = "invoice"\nsenders = ["*@Broker.example"]\nmailboxes = ["ap@example.org"]')[
        "a"
    ]
    assert pipeline.takes_sender("Notes@broker.example")
    assert not pipeline.takes_sender("notes@broker.example.com")
    assert pipeline.takes_mailbox("AP@example.org")
    assert not pipeline.takes_mailbox("hr@example.org")
