"""Units, image and compose file name settings, commands, paths and ports that exist."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml

import amazon
from postroom.cli.exit_codes import ExitCode
from postroom.config import PREFIX, Settings
from postroom.web.app import OPEN
from rules.command_lines import require_command
from rules.source_tree import ROOT

DEPLOY = ROOT / "deploy"
CONTAINERFILE = (ROOT / "Containerfile").read_text().replace("\\\n", " ")
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
STORE = yaml.safe_load((DEPLOY / "compose.store.yaml").read_text())
PORT = Settings.model_fields["port"].default
HOME = "/var/lib/postroom"
OWN_SERVICES = ["migrate", "web", "worker"]


def read_unit(path: Path) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    unit.read_string(path.read_text())
    return unit


def instructions(name: str) -> list[str]:
    """The arguments of each instruction of this name in the Containerfile."""
    return re.findall(rf"^{name} (.+)$", CONTAINERFILE, re.MULTILINE)


def test_all_files_together_name_only_settings_that_exist():
    files = [path for path in DEPLOY.rglob("*") if path.is_file()]
    named = {
        name
        for text in [CONTAINERFILE, *(path.read_text() for path in files)]
        for name in re.findall(rf"\b{PREFIX}[A-Z_]+\b", re.sub(r"#.*", "", text))
    }
    assert "POSTROOM_HOME" in named
    assert named <= {PREFIX + name.upper() for name in Settings.model_fields}


def test_a_command_that_does_not_exist_is_noticed():
    with pytest.raises(Exception, match="No such option: --no-such-option"):
        require_command(["serve", "--no-such-option"])


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_run_commands_as_their_own_user(path: Path):
    service = read_unit(path)["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert program == "/opt/postroom/bin/postroom"
    require_command(words)
    assert (service["User"], service["NoNewPrivileges"]) == ("postroom", "yes")
    assert service["Environment"] == f"POSTROOM_HOME=/var/lib/{service['StateDirectory']}"


@pytest.mark.parametrize(
    "path", [path for path in UNITS if "migrate" not in path.name], ids=lambda path: path.name
)
def test_units_restart_after_an_upgrade_and_not_after_wrong_settings(path: Path):
    service = read_unit(path)["Service"]
    assert service["Restart"] == "always"
    assert service["RestartPreventExitStatus"].split() == [str(int(ExitCode.USAGE))]
    assert int(service["TimeoutStopSec"]) > Settings.model_fields["stop_seconds"].default


def test_units_have_the_same_confinement():
    """Everything after the user and its directory, except how each one starts and stops."""
    own = {"ExecStart", "EnvironmentFile", "Type", "LimitNOFILE", "KillMode", "TimeoutStopSec"}
    restart = {"Restart", "RestartSec", "RestartPreventExitStatus"}
    first, *others = [
        {name: value for name, value in read_unit(path)["Service"].items() if name not in own | restart}
        for path in UNITS
    ]
    assert first["CapabilityBoundingSet"] == ""
    assert others == [first] * len(others)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_finds_no_fault_in_the_units(tmp_path: Path):
    for path in UNITS:
        text = path.read_text().replace("/opt/postroom/bin/postroom", sys.executable)
        (tmp_path / path.name.replace("@", "@1")).write_text(text)
    units = sorted(tmp_path.iterdir())
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_image_runs_postroom_as_an_ordinary_user():
    [entry], [command], [user] = instructions("ENTRYPOINT"), instructions("CMD"), instructions("USER")
    assert json.loads(entry) == ["postroom"]
    require_command(json.loads(command))
    assert user == "10001:10001"
    assert "useradd --uid 10001" in CONTAINERFILE
    assert instructions("EXPOSE") == [str(PORT)]
    assert instructions("VOLUME") == [HOME]
    assert f"POSTROOM_HOME={HOME}" in instructions("ENV")


def test_image_is_built_from_files_that_its_context_holds():
    context = (ROOT / ".dockerignore").read_text().split()
    sources = [
        source for line in instructions("COPY") if "--from" not in line for source in line.split()[:-1]
    ]
    assert sorted(sources) == sorted(line[1:] for line in context if line.startswith("!"))
    assert all((ROOT / source).exists() for source in sources)


def test_image_installs_locked_lists_only():
    [default] = [line.removeprefix("LIST=") for line in instructions("ARG") if line.startswith("LIST=")]
    assert (ROOT / f"requirements/{default}.txt").exists()
    installed = [line for line in instructions("RUN") if "pip install" in line]
    assert [
        ("--require-hashes" in line, line.endswith("--no-build-isolation /source")) for line in installed
    ] == [
        (True, False),
        (False, True),
    ]
    assert all("--no-deps" in line for line in installed)


@pytest.mark.parametrize("name", OWN_SERVICES)
def test_compose_services_run_commands_on_a_read_only_file_system(name: str):
    service = COMPOSE["services"][name]
    require_command(service["command"])
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["volumes"] == [f"home:{HOME}"]


def test_compose_publishes_the_port_on_this_machine_only():
    web = COMPOSE["services"]["web"]
    assert web["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert f"http://127.0.0.1:{PORT}/healthz" in web["healthcheck"]["test"][-1]
    assert "/healthz" in OPEN


def test_compose_passes_every_setting_on():
    for name in OWN_SERVICES:
        assert COMPOSE["services"][name]["env_file"] == ".env"
    assert ".env" in (DEPLOY / ".gitignore").read_text().split()


def test_compose_stops_after_the_work_has_ended():
    for name in OWN_SERVICES:
        period = COMPOSE["services"][name]["stop_grace_period"]
        assert int(period.removesuffix("s")) > Settings.model_fields["stop_seconds"].default


def test_compose_proxy_reaches_the_web_process_and_is_trusted():
    services = COMPOSE["services"]
    command = services["proxy"]["command"]
    assert command[command.index("--to") + 1] == f"web:{PORT}"
    assert command[command.index("--from") + 1] == "${POSTROOM_PUBLIC_URL:?}"
    [network] = COMPOSE["networks"]["default"]["ipam"]["config"]
    trusted = services["web"]["environment"]["POSTROOM_TRUSTED_PROXIES"]
    assert trusted == f"${{POSTROOM_TRUSTED_PROXIES:-{network['subnet']}}}"


def test_compose_store_holds_the_blobs_of_web_and_workers(tmp_path: Path):
    services = STORE["services"]
    assert services["web"]["environment"] == services["worker"]["environment"]
    bucket = services["web"]["environment"]
    settings = {
        name.removeprefix(PREFIX).lower(): value for name, value in bucket.items() if name.startswith(PREFIX)
    }
    assert Settings(home=tmp_path, **settings).blobs_endpoint == "http://store:9000"
    assert services["store"]["environment"] == {
        "MINIO_ROOT_USER": bucket["AWS_ACCESS_KEY_ID"],
        "MINIO_ROOT_PASSWORD": bucket["AWS_SECRET_ACCESS_KEY"],
    }


def test_compose_creates_the_bucket_of_the_store_once():
    creates = STORE["services"]["bucket"]
    assert creates["entrypoint"] == ["python", "-c"]
    name = creates["environment"]["POSTROOM_BLOBS"].removeprefix("s3://")
    with amazon.server() as url:
        store = {"POSTROOM_BLOBS_ENDPOINT": url, **amazon.CREDENTIALS}
        for _ in range(2):
            subprocess.run(
                [sys.executable, "-c", *creates["command"]], env={**os.environ, **store}, check=True
            )
        with urllib.request.urlopen(f"{url}/moto-api/data.json") as answer:
            assert [each["name"] for each in json.load(answer)["s3"]["FakeBucket"]] == [name]
