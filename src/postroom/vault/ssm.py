"""The vault that keeps grants in AWS Systems Manager, each in a SecureString parameter named by its place.

Speaks through boto3, in threads. Its errors become ours here and nowhere else; their words stay out, since
AWS repeats a value that it refuses.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from postroom import aws
from postroom.errors import InvalidGrant, OperatorError, PermanentError, PostroomError, TransientError
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
    """Grants that were sealed in the database before this vault was chosen still open, by the sealer."""

    client: Any
    sealer: Sealer
    prefix: str
    kms_key: str | None = None

    async def keep(self, place: SecretLocation, secret: Secret) -> SsmParameter:
        value = secret.reveal()
        key = {"KeyId": self.kms_key} if self.kms_key else {}
        name = f"{self.prefix}/{_parameter_suffix(place)}"
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

    async def fetch(self, place: SecretLocation, kept: StoredSecret) -> Secret:
        if isinstance(kept, SealedSecret):
            return self.sealer.open(place.context, kept)
        _require_own(place, kept)
        answer = await _call(self.client.get_parameter, Name=kept.name, WithDecryption=True)
        return Secret(answer["SsmParameter"]["Value"])

    async def forget(self, place: SecretLocation, kept: StoredSecret) -> None:
        if isinstance(kept, SealedSecret):
            return
        _require_own(place, kept)
        with suppress(InvalidGrant):  # gone already is what was wanted
            await _call(self.client.delete_parameter, Name=kept.name)


def _parameter_suffix(place: SecretLocation) -> str:
    return f"{place.organization}/{place.mailbox}/{place.field}"


def _require_own(place: SecretLocation, kept: SsmParameter) -> None:
    """A name copied to another row opens nothing there. The prefix may have been another one at the time."""
    if not kept.name.endswith(f"/{_parameter_suffix(place)}"):
        raise OperatorError(
            "The row of this mailbox names the parameter of another one."
            " Restore the row, or connect the mailbox again."
        )


def _tier(size: int) -> str:
    """Up to 4 KB the cheaper one if it will do: from the advanced tier no parameter comes back."""
    if size > ADVANCED_BYTES:
        raise PermanentError(
            f"This grant has {size} bytes, and AWS SSM keeps at most {ADVANCED_BYTES}."
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
        ours = OperatorError(
            f"AWS SSM cannot be used ({type(error).__name__})."
            " Give this process AWS credentials: a role, AWS_PROFILE, or keys that are still valid."
        )
    raise ours


def _to_error(answer: dict[str, Any]) -> PostroomError:
    code = str(answer.get("Error", {}).get("Code", ""))
    meta: dict[str, Any] = answer.get("ResponseMetadata", {})
    status = int(meta.get("HTTPStatusCode", 0))
    if code == "ParameterNotFound":
        return InvalidGrant("The grant of this mailbox is gone from AWS SSM. Connect the mailbox again.")
    if code in _BUSY or status == 429 or status >= 500:
        return TransientError(f"AWS SSM is busy ({code}).", retry_after=_retry_after(meta))
    if code in _DENIED:
        return OperatorError(
            f"AWS SSM denies access ({code}). Give this process credentials that may ssm:PutParameter,"
            " ssm:GetParameter and ssm:DeleteParameter below POSTROOM_SSM_PREFIX, and use the KMS key."
        )
    return OperatorError(
        f"AWS SSM refused the request ({code}). Check POSTROOM_SSM_PREFIX, POSTROOM_SSM_KMS_KEY, the quotas."
    )


def _retry_after(meta: dict[str, Any]) -> float | None:
    try:
        return max(0.0, float(meta.get("HTTPHeaders", {})["retry-after"]))
    except (KeyError, ValueError):
        return None
