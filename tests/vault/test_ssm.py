"""C3 on AWS: the real boto3 against moto's server, and against a server that refuses."""

import json
import os
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

import pytest

import amazon
from postroom import config
from postroom.errors import InvalidGrant, OperatorError, PermanentError, SettingsError, TransientError
from postroom.model import SealingKey, Secret
from postroom.ports import SecretLocation, SsmParameter
from postroom.vault import ConfiguredKeys, LocalVault, Sealer, ssm
from postroom.vault.ssm import SsmVault
from postroom.wiring import secrets

MARK = "m4rked-t0ken"
SEALER = Sealer(ConfiguredKeys((SealingKey("a", b"k" * 32),)))


@pytest.fixture(scope="module")
def moto():
    with amazon.server() as url:
        yield url


@pytest.fixture
def aws(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("AWS_", "POSTROOM_"))]:
        monkeypatch.delenv(name)
    for name, value in amazon.CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.fixture
def client(aws, moto):
    aws.setenv("AWS_ENDPOINT_URL_SSM", moto)
    return ssm.connect()


@pytest.fixture
def vault(client):
    return SsmVault(client, SEALER, "/postroom/tests")


@pytest.fixture
def place():
    return SecretLocation(uuid4(), uuid4(), "grant")


def described(client, kept):
    filters = [{"Key": "Name", "Option": "Equals", "Values": [kept.name]}]
    (found,) = client.describe_parameters(ParameterFilters=filters)["Parameters"]
    return found


async def test_a_grant_is_stored_as_a_secure_string_named_by_its_mailbox(vault, client, place):
    kept = await vault.store(place, Secret(MARK))
    assert kept == SsmParameter(f"/postroom/tests/{place.organization}/{place.mailbox}/grant")
    assert described(client, kept)["Type"] == "SecureString"
    assert client.get_parameter(Name=kept.name)["Parameter"]["Value"] != MARK
    assert await vault.fetch(place, kept) == Secret(MARK)


async def test_storing_again_replaces_the_grant(vault, place):
    kept = await vault.store(place, Secret("first"))
    assert await vault.store(place, Secret("second")) == kept
    assert await vault.fetch(place, kept) == Secret("second")


async def test_a_configured_kms_key_is_used(vault, client, place):
    kept = await replace(vault, kms_key="alias/postroom").store(place, Secret(MARK))
    assert described(client, kept)["KeyId"] == "alias/postroom"
    assert await vault.fetch(place, kept) == Secret(MARK)


async def test_a_forgotten_grant_is_gone_and_forgetting_it_again_is_no_error(vault, place):
    kept = await vault.store(place, Secret(MARK))
    await vault.delete(place, kept)
    await vault.delete(place, kept)
    with pytest.raises(InvalidGrant, match="Connect the mailbox again"):
        await vault.fetch(place, kept)


async def test_a_name_copied_to_another_row_opens_and_removes_nothing(vault, place):
    kept = await vault.store(place, Secret(MARK))
    for elsewhere in (
        replace(place, organization=uuid4()),
        replace(place, mailbox=uuid4()),
        replace(place, field="access"),
    ):
        for act in (vault.fetch, vault.delete):
            with pytest.raises(OperatorError, match="another"):
                await act(elsewhere, kept)
    assert await vault.fetch(place, kept) == Secret(MARK)


async def test_grants_stored_under_a_former_prefix_still_open(vault, place):
    kept = await vault.store(place, Secret(MARK))
    assert await replace(vault, prefix="/other").fetch(place, kept) == Secret(MARK)


async def test_grants_sealed_before_ssm_was_chosen_still_open(vault, place):
    kept = await LocalVault(SEALER).store(place, Secret(MARK))
    assert await vault.fetch(place, kept) == Secret(MARK)
    await vault.delete(place, kept)


@pytest.mark.parametrize(
    "value, tier",
    [("x" * 4096, "Intelligent-Tiering"), ("x" * 4097, "Advanced"), ("ä" * 4096, "Advanced")],
)
async def test_more_than_4_kb_in_bytes_takes_the_advanced_tier(vault, client, place, value, tier):
    kept = await vault.store(place, Secret(value))
    assert described(client, kept)["Tier"] == tier
    assert await vault.fetch(place, kept) == Secret(value)


@pytest.mark.parametrize("value", ["x" * 8193, "ä" * 4097])
async def test_more_than_8_kb_is_rejected_and_the_old_grant_stays(vault, place, value):
    kept = await vault.store(place, Secret(MARK))
    with pytest.raises(PermanentError, match=r"bytes.*8192.*POSTROOM_VAULT=local") as caught:
        await vault.store(place, Secret(value))
    assert "xxx" not in str(caught.value)
    assert await vault.fetch(place, kept) == Secret(MARK)


async def test_the_settings_choose_the_vault(aws, moto, place):
    assert isinstance(secrets.build_vault(config.load(), SEALER), LocalVault)
    aws.setenv("AWS_ENDPOINT_URL_SSM", moto)
    aws.setenv("POSTROOM_VAULT", "ssm")
    aws.setenv("POSTROOM_SSM_PREFIX", "/chosen")
    aws.setenv("POSTROOM_SSM_KMS_KEY", "alias/chosen")
    chosen = secrets.build_vault(config.load(), SEALER)
    kept = await chosen.store(place, Secret(MARK))
    assert kept.name.startswith("/chosen/")
    assert described(ssm.connect(), kept)["KeyId"] == "alias/chosen"


@pytest.fixture
def refusing(aws):
    """A vault whose AWS answers every request so, and the count of requests that came."""
    servers = []

    def start(status, code, **headers):
        class Answer(BaseHTTPRequestHandler):
            def do_POST(self):
                servers[-1].requests += 1
                self.rfile.read(int(self.headers["Content-Length"]))
                body = json.dumps({"__type": code, "message": f"Value '{MARK}' is not accepted"}).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": len(body)}.items():
                    self.send_header(name.replace("_", "-"), str(value))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        server.requests = 0
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
        aws.setenv("AWS_ENDPOINT_URL_SSM", f"http://127.0.0.1:{server.server_port}")
        return SsmVault(ssm.connect(), SEALER, "/postroom"), server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "status, code, headers, seconds",
    [
        (400, "ThrottlingException", {}, None),
        (400, "ThrottlingException", {"Retry_After": 7}, 7),
        (429, "Unheard", {"Retry_After": "soon"}, None),
        (503, "ServiceUnavailable", {}, None),
        (400, "TooManyUpdates", {}, None),
    ],
)
async def test_throttling_by_aws_is_a_transient_error(refusing, place, status, code, headers, seconds):
    vault, server = refusing(status, code, **headers)
    with pytest.raises(TransientError, match=code) as caught:
        await vault.store(place, Secret(MARK))
    assert caught.value.retry_after == seconds
    assert server.requests <= 3
    assert_silent(caught.value)


@pytest.mark.parametrize(
    "code, words",
    [
        ("AccessDeniedException", "denies access.*ssm:GetParameter"),
        ("ExpiredTokenException", "denies access.*credentials"),
        ("UnrecognizedClientException", "denies access"),
        ("InvalidKeyId", "POSTROOM_SSM_KMS_KEY"),
        ("ParameterLimitExceeded", "quotas"),
        ("ValidationException", "ValidationException"),
    ],
)
async def test_operator_errors_do_not_quote_aws(refusing, place, code, words):
    vault, server = refusing(400, code)
    for call in (
        vault.store(place, Secret(MARK)),
        vault.fetch(place, SsmParameter(f"/x/{place.organization}/{place.mailbox}/grant")),
    ):
        with pytest.raises(OperatorError, match=words) as caught:
            await call
        assert_silent(caught.value)
    assert server.requests == 2


def assert_silent(error):
    """AWS quotes the value that it rejects; neither our message nor its cause may do so."""
    assert MARK not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None


async def test_an_unreachable_aws_is_a_transient_error(aws, refusing, place):
    vault, server = refusing(503, "x")
    server.shutdown()
    server.server_close()
    with pytest.raises(TransientError, match="cannot be reached"):
        await vault.fetch(place, SsmParameter(f"/x/{place.organization}/{place.mailbox}/grant"))


async def test_missing_credentials_are_an_operator_error(aws, moto, place):
    aws.setenv("AWS_ENDPOINT_URL_SSM", moto)
    aws.delenv("AWS_ACCESS_KEY_ID")
    aws.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(OperatorError, match=r"NoCredentialsError.*AWS_PROFILE"):
        await SsmVault(ssm.connect(), SEALER, "/postroom").store(place, Secret(MARK))


def test_a_missing_region_is_a_settings_error(aws):
    aws.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(SettingsError, match="AWS_REGION"):
        ssm.connect()


def test_an_unknown_profile_is_a_settings_error(aws):
    aws.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(SettingsError, match="ProfileNotFound"):
        ssm.connect()


def test_a_missing_library_names_the_remedy(aws):
    aws.setitem(sys.modules, "boto3", None)
    with pytest.raises(SettingsError, match=r"pip install 'postroom\[aws\]'"):
        ssm.connect()
