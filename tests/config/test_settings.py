import copy
import pickle
from pathlib import Path

import pytest

from postroom import config
from postroom.errors import SettingsError
from postroom.model import Secret

MARK = "m4rked-pa55word"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in list(config.child_environment()):
        if name.upper().startswith(config.PREFIX):
            monkeypatch.delenv(name)


def faults(**environment):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with pytest.raises(SettingsError) as caught:
            config.load()
    return str(caught.value).splitlines()


def test_bucket_endpoint_may_use_http_only_on_this_machine_or_a_private_network(monkeypatch):
    for url in ("http://store:9000", "http://[::1]:9000", "https://s3.example.com"):
        monkeypatch.setenv("POSTROOM_BLOBS_ENDPOINT", url)
        assert config.load().blobs_endpoint == url
    monkeypatch.delenv("POSTROOM_BLOBS_ENDPOINT")
    for url in ("http://s3.example.com", "http://10.0.0.1:9000", "http://[2001:db8::1]"):
        assert "is not an https URL" in faults(POSTROOM_BLOBS_ENDPOINT=url)[0]


def test_without_any_variable_the_defaults_hold():
    settings = config.load()
    assert (settings.host, settings.port, settings.poll_seconds) == ("127.0.0.1", 8025, 5)
    assert settings.database_url is None


def test_an_option_wins_over_the_environment_and_an_absent_option_does_not(monkeypatch):
    monkeypatch.setenv("POSTROOM_PORT", "9000")
    assert config.load(port=None).port == 9000
    assert config.load(port=9001).port == 9001


def test_an_empty_variable_counts_as_unset(monkeypatch):
    monkeypatch.setenv("POSTROOM_DATABASE_URL", "")
    assert config.load().database_url is None


def test_every_fault_is_reported_at_once_on_its_own_line_with_its_remedy():
    found = faults(
        POSTROOM_PORT="eighty",
        POSTROOM_WAKE="shout",
        POSTROOM_HOME="here",
        POSTROOM_LEASE_SECOND="3",
        POSTROOM_ZZZ="1",
    )
    assert found == [
        "POSTROOM_HOME: 'here' is a relative path. Set it to the absolute path of a directory.",
        "POSTROOM_PORT: 'eighty' is not valid. Set it to a whole number from 0 to 65535.",
        "POSTROOM_WAKE: 'shout' is not valid. Set it to notify or poll.",
        "POSTROOM_LEASE_SECOND: unknown setting. Did you mean POSTROOM_LEASE_SECONDS?",
        "POSTROOM_ZZZ: unknown setting. Remove it; `postroom config show` lists every setting.",
    ]


def test_a_fault_beside_a_fault_between_two_settings_is_reported_too():
    found = faults(
        POSTROOM_BACKOFF_FIRST_SECONDS="100", POSTROOM_BACKOFF_MAX_SECONDS="10", POSTROOM_PORT="-1"
    )
    assert [line.split(":")[0] for line in found] == ["POSTROOM_PORT", "POSTROOM_BACKOFF_MAX_SECONDS"]


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0", "1e9", "five"])
def test_a_number_that_is_none_or_out_of_range_is_refused(value):
    assert len(faults(POSTROOM_POLL_SECONDS=value)) == 1


@pytest.mark.parametrize(
    "value",
    [
        MARK,
        f"mysql://u:{MARK}@db.example/x",
        f"postgresql://u:{MARK}@db.example",
        f"postgresql://u:{MARK}@[x/y",
        f"postgresql://u:p@{MARK}/w0rd@127.0.0.1:5432/x",
        f"postgresql://u:p@{MARK}@127.0.0.1:5432/x",
        f"postgresql://u:5/{MARK}@127.0.0.1:5432/x",
        f"postgresql://u:{MARK}@a.example:5432,b.example:port/x",
    ],
)
def test_a_wrong_database_url_is_refused_without_being_shown(value):
    (line,) = faults(POSTROOM_DATABASE_URL=value)
    assert MARK not in line
    assert "postgresql://user:password@host:5432/database" in line


@pytest.mark.parametrize(
    "value",
    [
        "postgresql://u:secret@a.example:5432,b.example:5433/x",
        "postgresql://u@[::1]:5432,[::2]/x?target_session_attrs=primary",
        "postgresql://u@/x?host=/run/a,/run/b",
    ],
)
def test_a_database_url_may_name_several_hosts(monkeypatch, value):
    monkeypatch.setenv("POSTROOM_DATABASE_URL", value)
    url = config.load().database_url
    assert url is not None
    assert url.reveal() == value


def test_the_url_of_the_owner_alone_is_refused_without_being_shown():
    (line,) = faults(POSTROOM_DATABASE_OWNER_URL=f"postgresql://u:{MARK}@db.example/x")
    assert MARK not in line
    assert "must be set together with POSTROOM_DATABASE_URL" in line


@pytest.mark.parametrize(
    "value",
    [
        "http://post.example.org",
        "post.example.org",
        "https://",
        "ftp://localhost",
        f"https://u:{MARK}@post.example.org",
    ],
)
def test_a_public_url_that_no_provider_would_call_is_refused(value):
    (line,) = faults(POSTROOM_PUBLIC_URL=value)
    assert MARK not in line
    assert "https://post.example.org" in line


@pytest.mark.parametrize(
    "value",
    [
        "https://post.example.org",
        "https://post.example.org:8443/mail",
        "http://localhost:8025",
        "http://[::1]:1",
    ],
)
def test_https_and_loopback_public_urls_are_accepted(monkeypatch, value):
    monkeypatch.setenv("POSTROOM_PUBLIC_URL", value + "/")
    assert config.load().public_url == value


def test_shown_settings_name_their_source_and_mask_secrets(monkeypatch):
    monkeypatch.setenv("POSTROOM_DATABASE_URL", f"postgresql://u:{MARK}@db.example/x")
    shown = {setting.name: setting for setting in config.describe_settings(config.load())}
    assert shown["POSTROOM_DATABASE_URL"].value == "********"
    assert shown["POSTROOM_DATABASE_URL"].source == "environment"
    assert shown["POSTROOM_PORT"].source == "default"
    assert all(setting.meaning for setting in shown.values())
    assert MARK not in repr(shown)


def test_a_childs_environment_replaces_and_removes_settings(monkeypatch):
    monkeypatch.setenv("POSTROOM_DATABASE_URL", f"postgresql://u:{MARK}@db.example/x")
    monkeypatch.setenv("postroom_port", "1")
    environment = config.child_environment(home=Path("/tmp/x"), port=2, database_url=None)
    assert environment["POSTROOM_HOME"] == "/tmp/x"
    assert environment["POSTROOM_PORT"] == "2"
    assert "postroom_port" not in environment
    assert "POSTROOM_DATABASE_URL" not in environment
    assert "PATH" in environment


def test_settings_cannot_be_changed_after_they_were_read():
    with pytest.raises(ValueError, match="frozen"):
        config.load().port = 1


def test_a_secret_shows_itself_only_when_asked():
    secret = Secret(MARK)
    assert secret.reveal() == MARK
    assert secret == Secret(MARK)
    assert secret != Secret("other")
    assert secret != MARK
    assert MARK not in f"{secret} {secret!r} {secret!s} {[secret]} {secret:}"
    assert not hasattr(secret, "__dict__")
    for spread in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="pickled"):
            spread(secret)


def test_a_secret_can_be_read_from_a_file(monkeypatch, tmp_path):
    (tmp_path / "token").write_text(f"{MARK}\n")
    monkeypatch.setenv("POSTROOM_METRICS_TOKEN_FILE", str(tmp_path / "token"))
    settings = config.load()
    assert settings.metrics_token == Secret(MARK)
    [view] = [view for view in config.describe_settings(settings) if view.name == "POSTROOM_METRICS_TOKEN"]
    assert view.source == "file"
    assert MARK not in str(view)


def test_the_file_of_a_secret_is_checked_like_a_variable(tmp_path):
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "url").write_text(f"mysql://ann:{MARK}@db.example.com/mail")
    (tmp_path / "key").write_text(MARK)
    found = faults(
        POSTROOM_DATABASE_URL_FILE=str(tmp_path / "url"),
        POSTROOM_LEDGER_KEY=MARK,
        POSTROOM_LEDGER_KEY_FILE=str(tmp_path / "key"),
        POSTROOM_LLM_KEY_FILE=str(tmp_path / "empty"),
        POSTROOM_METRICS_TOKEN_FILE=str(tmp_path / "missing"),
        POSTROOM_PORT_FILE=str(tmp_path / "key"),
    )
    assert MARK not in str(found)
    assert {fault.partition(":")[0] for fault in found} == {
        "POSTROOM_DATABASE_URL",
        "POSTROOM_LEDGER_KEY",
        "POSTROOM_LEDGER_KEY_FILE",
        "POSTROOM_LLM_KEY_FILE",
        "POSTROOM_METRICS_TOKEN_FILE",
        "POSTROOM_PORT_FILE",
    }


def test_a_changed_secret_replaces_its_file_for_child_processes(monkeypatch, tmp_path):
    (tmp_path / "url").write_text("postgresql://db.example.com/mail")
    monkeypatch.setenv("POSTROOM_DATABASE_URL_FILE", str(tmp_path / "url"))
    child = config.child_environment(database_url="postgresql://db.example.com/other")
    assert child["POSTROOM_DATABASE_URL"] == "postgresql://db.example.com/other"
    assert "POSTROOM_DATABASE_URL_FILE" not in child
