"""Units, image, compose file and Kubernetes manifests name settings, commands, paths and ports that exist."""

import configparser
import json
import re
import shlex

import pytest
import typer
import yaml

from postroom.cli import app
from postroom.cli.exit_codes import ExitCode
from postroom.config import PREFIX, Settings
from postroom.web.app import OPEN
from rules.source_tree import ROOT

DEPLOY = ROOT / "deploy"
CONTAINERFILE = (ROOT / "Containerfile").read_text().replace("\\\n", " ")
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
MANIFESTS = {
    (each["kind"], each["metadata"]["name"]): each
    for file in ("web", "worker", "network")
    for each in yaml.safe_load_all((DEPLOY / f"kubernetes/{file}.yaml").read_text())
}
KUSTOMIZATION = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text())
COMPONENTS = ["web", "worker"]
PORT = Settings.model_fields["port"].default
HOME = "/var/lib/postroom"
OWN_SERVICES = ["migrate", "web", "worker"]


def read_unit(path):
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read_string(path.read_text())
    return unit


def instructions(name):
    """The arguments of each instruction of this name in the Containerfile."""
    return re.findall(rf"^{name} (.+)$", CONTAINERFILE, re.MULTILINE)


def require_command(words):
    """Parse the words as a command line of Postroom, without running it."""
    command = typer.main.get_command(app)
    context = command.make_context("postroom", list(words), resilient_parsing=False)
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def pod(component):
    return MANIFESTS["Deployment", f"postroom-{component}"]["spec"]["template"]["spec"]


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
def test_units_run_commands_as_their_own_user(path):
    service = read_unit(path)["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert program == "/opt/postroom/bin/postroom"
    require_command(words)
    assert (service["User"], service["NoNewPrivileges"]) == ("postroom", "yes")
    assert service["Environment"] == f"POSTROOM_HOME=/var/lib/{service['StateDirectory']}"


@pytest.mark.parametrize(
    "path", [path for path in UNITS if "migrate" not in path.name], ids=lambda path: path.name
)
def test_units_restart_after_an_upgrade_and_not_after_wrong_settings(path):
    service = read_unit(path)["Service"]
    assert service["Restart"] == "always"
    assert service["RestartPreventExitStatus"].split() == [str(int(ExitCode.USAGE))]
    assert int(service["TimeoutStopSec"]) > Settings.model_fields["stop_seconds"].default


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
def test_compose_services_run_commands_on_a_read_only_file_system(name):
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


@pytest.mark.parametrize("component", COMPONENTS)
def test_pods_run_commands_without_privileges(component):
    spec = pod(component)
    assert spec["securityContext"]["runAsUser"] == 10001
    [migration], [container] = spec["initContainers"], spec["containers"]
    for each in (migration, container):
        require_command(each["args"])
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {mount["mountPath"] for mount in each["volumeMounts"]} == {HOME, "/tmp"}
    assert migration["args"] == ["db", "migrate"]
    owner = {"secretRef": {"name": "postroom-owner", "optional": True}}
    assert migration["envFrom"] == [*container["envFrom"], owner]
    assert spec["terminationGracePeriodSeconds"] > Settings.model_fields["stop_seconds"].default


@pytest.mark.parametrize("component", COMPONENTS)
def test_pods_get_no_variables_of_services(component):
    """Kubernetes sets POSTROOM_PORT=tcp://… for a service that is called postroom, unless this is off."""
    assert pod(component)["enableServiceLinks"] is False


def test_probes_and_service_reach_the_web_process():
    [container] = pod("web")["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": PORT}]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        get = container[probe]["httpGet"]
        assert get["port"] == "http"
        assert get["path"] in OPEN
    [port] = MANIFESTS["Service", "postroom"]["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (PORT, "http")


def test_selectors_find_the_pods():
    for (kind, name), manifest in MANIFESTS.items():
        spec = manifest["spec"]
        selector = spec.get("podSelector") or spec["selector"]
        chosen = selector.get("matchLabels", selector)["app.kubernetes.io/component"]
        expected = "web" if kind == "Service" else name.removeprefix("postroom-")
        assert chosen == expected
    for component in COMPONENTS:
        template = MANIFESTS["Deployment", f"postroom-{component}"]["spec"]["template"]
        assert template["metadata"]["labels"] == {"app.kubernetes.io/component": component}


def test_settings_in_the_kustomization_are_valid(monkeypatch):
    [generated] = KUSTOMIZATION["configMapGenerator"]
    for literal in generated["literals"]:
        monkeypatch.setenv(*literal.split("=", 1))
    assert str(Settings().public_url).startswith("https://")
    files = {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
    assert set(KUSTOMIZATION["resources"]) == files
