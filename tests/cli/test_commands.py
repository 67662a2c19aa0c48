import json
import subprocess
import sys

import pytest

from postroom import __version__

MARK = "m4rked-pa55word"


def test_version_option_prints_the_version(postroom):
    assert postroom("--version").stdout == f"postroom {__version__}\n"


def test_help_lists_commands_and_exit_codes(postroom):
    done = postroom("--help")
    assert done.returncode == 0
    for word in ("demo", "up", "serve", "work", "doctor", "db", "config", "Exit codes"):
        assert f"  {word}" in done.stdout


@pytest.mark.parametrize("group", [(), ("db",), ("config",)])
def test_group_without_a_command_prints_its_help(postroom, group):
    done = postroom(*group)
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: postroom")


@pytest.mark.parametrize(
    "arguments",
    [("nope",), ("serve", "--nope"), ("serve", "--port", "x"), ("serve", "--port", "70000"), ("db", "x")],
)
def test_wrong_usage_is_one_line_that_mentions_the_help(complaint, arguments):
    assert "--help`." in complaint(2, *arguments)


def test_help_imports_nothing_heavy():
    code = "import sys, postroom.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"pydantic", "structlog", "psycopg", "starlette", "uvicorn", "jinja2"} & set(loaded)


def test_every_invalid_setting_is_reported_on_its_own_line(postroom):
    done = postroom("config", "show", POSTROOM_PORT="x", POSTROOM_HOST_="y", POSTROOM_DATABASE_URL=MARK)
    assert done.returncode == 2
    assert [line.partition(": ")[0] for line in done.stderr.removeprefix("error: ").splitlines()] == [
        "POSTROOM_DATABASE_URL",
        "POSTROOM_PORT",
        "POSTROOM_HOST_",
    ]
    assert MARK not in done.stderr


@pytest.mark.parametrize("command", [("serve",), ("work",), ("up",), ("db", "migrate")])
def test_invalid_settings_stop_every_command(complaint, command):
    assert complaint(2, *command, POSTROOM_LEASE_SECONDS="soon").startswith("POSTROOM_LEASE_SECONDS: 'soon'")


def test_settings_are_shown_with_their_source_and_secrets_masked(postroom):
    url = f"postgresql://u:{MARK}@db.example/x"
    text = postroom("config", "show", POSTROOM_DATABASE_URL=url)
    assert text.returncode == 0
    assert MARK not in text.stdout
    shown = {each["name"]: each for each in json.loads(postroom("config", "show", "--json").stdout)}
    assert shown["POSTROOM_PORT"] == {
        "name": "POSTROOM_PORT",
        "value": 8025,
        "source": "default",
        "meaning": "Port the web process listens on; 0 picks a free one",
    }
    assert shown["POSTROOM_HOME"]["source"] == "environment"


def test_closed_output_pipe_causes_no_error_message(postroom, tmp_path):
    program = f"{sys.executable} -m postroom --help | true; echo ${{PIPESTATUS[0]}}"
    for _ in range(2):
        done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.strip() in {"0", "141"}
        assert done.stderr == ""
