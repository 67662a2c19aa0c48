"""SsmVault: stores grants in AWS Systems Manager, each as a SecureString parameter.

A parameter is named by its mailbox or directory. Uses boto3 in threads and translates its errors. Their
messages are dropped: AWS quotes values it rejects.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from postroom import aws
from postroom.errors import InvalidGrant, PermanentError, PostroomError, SecretUnreadable, TransientError
from postroom.model import Secret
from postroom.ports import SealedSecret, SecretLocation, SsmParameter, StoredSecret
from postroom.vault.sealer import Sealer

STANDARD_BYTES: Final = 4096
ADVANCED_BYTES: Final = 8192

_BUSY: Final = frozenset(
    {
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestTimeout",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TooManyUpdates",
    }
)
_DENIED: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignatureException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)


def connect() -> Any:
    """A client of AWS SSM."""
    return aws.open_client("ssm", "POSTROOM_VAULT=ssm", read_seconds=10, attempts=3)


@dataclass(frozen=True)
class SsmVault:
    """The sealer still opens grants that were stored in the database before this vault was configured."""

    client: Any
    sealer: Sealer
    prefix: str
    kms_key: str | None = None

    async def store(self, location: SecretLocation, secret: Secret) -> SsmParameter:
        value = secret.reveal()
        key = {"KeyId": self.kms_key} if self.kms_key else {}
        name = f"{self.prefix}/{_parameter_suffix(location)}"
        await _call(
            self.client.put_parameter,
            Name=name,
            Value=value,
            Type="SecureString",
            Overwrite=True,
            Tier=_tier(len(value.encode())),
            **key,
        )
        return SsmParameter(name)

    async def fetch(self, location: SecretLocation, stored: StoredSecret) -> Secret:
        if isinstance(stored, SealedSecret):
            return self.sealer.open(location.context, stored)
        _require_own(location, stored)
        response = await _call(self.client.get_parameter, Name=stored.name, WithDecryption=True)
        return Secret(response["Parameter"]["Value"])

    async def delete(self, location: SecretLocation, stored: StoredSecret) -> None:
        if isinstance(stored, SealedSecret):
            return
        _require_own(location, stored)
        with suppress(InvalidGrant):  # deleted already
            await _call(self.client.delete_parameter, Name=stored.name)


def _parameter_suffix(location: SecretLocation) -> str:
    return f"{location.organization}/{location.mailbox}/{location.field}"


def _require_own(location: SecretLocation, stored: SsmParameter) -> None:
    """Raise if the name was copied from another row. The prefix may have changed since."""
    if not stored.name.endswith(f"/{_parameter_suffix(location)}"):
        raise SecretUnreadable(
            "The row of this mailbox names the parameter of another mailbox."
            " Restore the row, or connect the mailbox again."
        )


def _tier(size: int) -> str:
    """The cheaper tier up to 4 KB: AWS never moves a parameter back from the advanced tier."""
    if size > ADVANCED_BYTES:
        raise PermanentError(
            f"This grant has {size} bytes, but AWS SSM stores at most {ADVANCED_BYTES}."
            " Use a smaller key or certificate, or POSTROOM_VAULT=local."
        )
    return "Advanced" if size > STANDARD_BYTES else "Intelligent-Tiering"


async def _call(operation: Callable[..., Any], **arguments: Any) -> Any:
    errors: Any = import_module("botocore.exceptions")
    try:
        return await asyncio.to_thread(operation, **arguments)
    except errors.ClientError as error:
        ours = _to_error(error.response)
    except (errors.HTTPClientError, errors.ConnectionError, errors.IncompleteReadError) as error:
        ours = TransientError(
            f"AWS SSM cannot be reached ({type(error).__name__}). Check AWS_REGION and the network."
        )
    # botocore raises a bare RuntimeError where refreshed credentials are expired as well.
    except (errors.BotoCoreError, RuntimeError) as error:
        ours = SecretUnreadable(
            f"AWS SSM cannot be used ({type(error).__name__})."
            " Give this process AWS credentials: a role, AWS_PROFILE, or keys that are still valid."
        )
    raise ours


def _to_error(response: dict[str, Any]) -> PostroomError:
    code = str(response.get("Error", {}).get("Code", ""))
    meta: dict[str, Any] = response.get("ResponseMetadata", {})
    status = int(meta.get("HTTPStatusCode", 0))
    if code == "ParameterNotFound":
        return InvalidGrant(
            "The grant of this mailbox no longer exists in AWS SSM. Connect the mailbox again."
        )
    if code in _BUSY or status == 429 or status >= 500:
        return TransientError(f"AWS SSM is busy ({code}).", retry_after=_retry_after(meta))
    if code in _DENIED:
        return SecretUnreadable(
            f"AWS SSM denies access ({code}). Give this process credentials that allow ssm:PutParameter,"
            " ssm:GetParameter and ssm:DeleteParameter below POSTROOM_SSM_PREFIX, and the use of the KMS key."
        )
    return SecretUnreadable(
        f"AWS SSM rejected the request ({code})."
        " Check POSTROOM_SSM_PREFIX, POSTROOM_SSM_KMS_KEY and the quotas."
    )


def _retry_after(meta: dict[str, Any]) -> float | None:
    try:
        return max(0.0, float(meta.get("HTTPHeaders", {})["retry-after"]))
    except (KeyError, ValueError):
        return None
