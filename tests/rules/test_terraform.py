"""The Terraform examples ask for what the program uses, and output settings that exist."""

import re
from typing import Any, cast

import pytest

from postroom.config import PREFIX, Settings
from postroom.model import ContentPolicy, ProviderName
from postroom.providers.graph.login import EntraLogin
from postroom.web.app import OPEN
from postroom.web.push import ENDPOINT_RULES
from rules.source_tree import ROOT

TERRAFORM = ROOT / "deploy/terraform"
CLOUDS = ["aws", "google", "microsoft"]
FILES = sorted(TERRAFORM.glob("*/*.tf"))
# The action that permits a call. One call of obstore may be several of S3.
ACTIONS = {
    "sqs": {
        "change_message_visibility_batch": ["ChangeMessageVisibility"],
        "delete_message": ["DeleteMessage"],
        "get_queue_attributes": ["GetQueueAttributes"],
        "receive_message": ["ReceiveMessage"],
        "send_message_batch": ["SendMessage"],
    },
    "ssm": {
        "delete_parameter": ["DeleteParameter"],
        "get_parameter": ["GetParameter"],
        "put_parameter": ["PutParameter"],
    },
    "s3": {
        "delete_async": ["DeleteObject"],
        "get_async": ["GetObject"],
        "head_async": ["GetObject"],
        "list": ["ListBucket"],
        "put_async": ["PutObject", "AbortMultipartUpload"],
    },
}
CALLERS = {"sqs": "sqs.py", "ssm": "vault/ssm.py", "s3": "blobs/s3.py"}


def read(cloud: str) -> str:
    """The files of a cloud without their comments."""
    texts = [path.read_text() for path in FILES if path.parent.name == cloud]
    return re.sub(r"(^|\s)#.*", "", "\n".join(texts))


def read_output(cloud: str, name: str) -> list[str]:
    """The settings in an output."""
    found = re.search(rf'^output "{name}" {{\n(.+?)^}}', read(cloud), re.MULTILINE | re.DOTALL)
    return re.findall(rf"\b({PREFIX}[A-Z_]+) +=", found[1]) if found else []


def read_list(cloud: str, name: str) -> set[str]:
    """The strings in a list of permissions, of both branches of a condition."""
    [line] = re.findall(rf"^ +{name} += \[(.+)\]$", read(cloud), re.MULTILINE)
    return set(re.findall(r'"([^"]+)"', line))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_files_are_valid_terraform(path: Any):
    hcl2 = pytest.importorskip("hcl2")
    assert hcl2.loads(path.read_text())


@pytest.mark.parametrize("cloud", CLOUDS)
def test_outputs_are_settings_with_the_secret_ones_apart(cloud: str):
    fields = {PREFIX + name.upper(): field for name, field in Settings.model_fields.items()}
    plain, secret = read_output(cloud, "settings"), read_output(cloud, "secret_settings")
    assert plain
    assert {name: "Secret" in str(fields[name].annotation) for name in [*plain, *secret]} == (
        dict.fromkeys(plain, False) | dict.fromkeys(secret, True)
    )


def test_sign_in_asks_for_the_permissions_that_postroom_requests():
    login = cast("EntraLogin", None)  # its scopes depend on the content policy alone
    requested = {
        scope.rpartition("/")[2] for policy in ContentPolicy for scope in EntraLogin.scopes(login, policy)
    }
    assert read_list("microsoft", "delegated") == requested


def test_application_asks_for_permissions_that_the_documentation_explains():
    guide = (ROOT / "docs/how-to/microsoft.md").read_text().partition("\n## App-only\n")[2]
    explained = set(re.findall(r"`(\w+\.Read[\w.]*)`", guide.partition("\n### 2.")[0]))
    asked = read_list("microsoft", "application")
    assert asked >= {"Mail.Read", "Mail.ReadBasic.All"}
    assert asked <= explained


def test_addresses_that_providers_call_exist():
    [callback] = re.findall(r"\$\{var\.public_url\}(/oauth/\S+?)\"", read("microsoft"))
    assert callback.replace("outlook", "{provider}") in OPEN
    [push] = re.findall(r"\$\{var\.public_url\}(/webhooks/\S+?)\"", read("google"))
    assert push in ENDPOINT_RULES[ProviderName.GMAIL].paths


def test_gmail_may_publish():
    guide = (ROOT / "docs/how-to/google.md").read_text()
    [publisher] = re.findall(r'"(serviceAccount:gmail\S+?)"', read("google"))
    assert publisher in guide


@pytest.mark.parametrize("service", ACTIONS)
def test_role_permits_the_calls_that_postroom_makes_and_no_others(service: str):
    source = (ROOT / "src/postroom" / CALLERS[service]).read_text()
    calls = set(re.findall(r"\bself\.(?:client|_store)\.(\w+)", source))
    needed = {f"{service}:{action}" for call in calls for action in ACTIONS[service][call]}
    policy = re.search(r'data "aws_iam_policy_document" "postroom" {(.+)', read("aws"), re.DOTALL)
    assert policy
    assert set(re.findall(rf'"({service}:\w+)"', policy[1].partition("\ndata ")[0])) == needed
