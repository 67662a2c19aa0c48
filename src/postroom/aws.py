"""Open boto3 clients of AWS services, with clear errors. boto3 is an optional dependency.

The services are called in `sqs` and `vault.ssm`. Buckets are opened in `blobs.s3`, by another library.
"""

from importlib import import_module
from typing import Any

from postroom.errors import SettingsError


def open_client(
    service: str,
    setting: str,
    *,
    read_seconds: float,
    attempts: int,
    url: str | None = None,
    region: str | None = None,
) -> Any:
    """A client. Region, credentials and endpoint come from the usual AWS configuration unless given."""
    try:
        boto3: Any = import_module("boto3")
        config: Any = import_module("botocore.config")
        errors: Any = import_module("botocore.exceptions")
    except ImportError:
        raise SettingsError(
            f"{setting} requires the library boto3. Run `pip install 'postroom[aws]'`."
        ) from None
    limits = config.Config(
        connect_timeout=5,
        read_timeout=read_seconds,
        retries={"mode": "standard", "total_max_attempts": attempts},
    )
    try:
        session = boto3.session.Session()
        return session.client(service, endpoint_url=url, region_name=region, config=limits)
    except errors.NoRegionError:
        raise SettingsError(f"{setting} requires a region. Set AWS_REGION, such as eu-west-1.") from None
    except (errors.BotoCoreError, ValueError) as error:
        raise SettingsError(
            f"{setting} cannot be used ({type(error).__name__}). Correct the AWS_ variables or ~/.aws/config."
        ) from None
