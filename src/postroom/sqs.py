"""The client of the Amazon SQS queue that announces work: send, receive, extend and delete messages.

A message names a row of `work` and holds nothing else. Uses boto3. Requests run in threads, so that they do
not block the event loop; the one that waits for messages has its own thread, which ends with the process.
Errors of boto3 are translated here. What to announce and claim is in `flow.documents.sqs_dispatch`.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, cast
from urllib.parse import urlsplit

from postroom import aws
from postroom.errors import OperatorError, TransientError

MAX_BATCH: Final = 10
WAIT_SECONDS: Final = 20  # of a long poll: the maximum of SQS
MAX_INVISIBLE_SECONDS: Final = 43_200


@dataclass(frozen=True, slots=True)
class WorkReference:
    """The row of work that a message names."""

    kind: str
    subject: str


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A received message. Without `named` it cannot be parsed, and the redrive policy removes it."""

    receipt: str
    named: WorkReference | None


@dataclass(frozen=True)
class SqsQueue:
    client: Any
    url: str

    async def check(self) -> bool:
        """Whether the queue has a redrive policy. Raises if the queue cannot be used."""
        names = ["RedrivePolicy"]
        response = await _in_thread(self.client.get_queue_attributes, QueueUrl=self.url, AttributeNames=names)
        return "RedrivePolicy" in response.get("Attributes", {})

    async def send(self, references: Sequence[WorkReference]) -> list[WorkReference]:
        """Send references to work; returns those that the queue accepted."""
        accepted: list[WorkReference] = []
        for start in range(0, len(references), MAX_BATCH):
            batch = references[start : start + MAX_BATCH]
            entries = [
                {"Id": str(index), "MessageBody": json.dumps({"kind": entry.kind, "subject": entry.subject})}
                for index, entry in enumerate(batch)
            ]
            response = await _in_thread(self.client.send_message_batch, QueueUrl=self.url, Entries=entries)
            accepted += [batch[int(entry["Id"])] for entry in response.get("Successful", [])]
        return accepted

    async def receive(self, most: int, *, invisible_seconds: float) -> list[QueueMessage]:
        """Wait for messages, and hide them from other receivers for `invisible_seconds`."""
        response = await _in_own_thread(
            self.client.receive_message,
            QueueUrl=self.url,
            MaxNumberOfMessages=min(most, MAX_BATCH),
            WaitTimeSeconds=WAIT_SECONDS,
            VisibilityTimeout=_to_visibility_timeout(invisible_seconds),
        )
        return [
            QueueMessage(message["ReceiptHandle"], _parse_body(message["Body"]))
            for message in response.get("Messages", [])
        ]

    async def extend(self, receipts: Sequence[str], *, invisible_seconds: float) -> None:
        for start in range(0, len(receipts), MAX_BATCH):
            entries = [
                {
                    "Id": str(index),
                    "ReceiptHandle": receipt,
                    "VisibilityTimeout": _to_visibility_timeout(invisible_seconds),
                }
                for index, receipt in enumerate(receipts[start : start + MAX_BATCH])
            ]
            await _in_thread(self.client.change_message_visibility_batch, QueueUrl=self.url, Entries=entries)

    async def delete(self, receipt: str) -> None:
        await _in_thread(self.client.delete_message, QueueUrl=self.url, ReceiptHandle=receipt)


def connect(url: str) -> SqsQueue:
    """Open a queue by its URL. Credentials come from the usual AWS configuration."""
    parts = urlsplit(url)
    host = (parts.hostname or "").split(".")
    region = host[1] if host[0] == "sqs" and len(host) > 1 else None
    client = aws.open_client(
        "sqs",
        "POSTROOM_QUEUE=sqs:…",
        read_seconds=WAIT_SECONDS + 10,
        attempts=2,
        url=f"{parts.scheme}://{parts.netloc}",
        region=region,
    )
    return SqsQueue(client, url)


def _parse_body(body: str) -> WorkReference | None:
    with suppress(ValueError):
        parsed: object = json.loads(body)
        if isinstance(parsed, dict):
            fields = cast("dict[str, object]", parsed)
            kind, subject = fields.get("kind"), fields.get("subject")
            if isinstance(kind, str) and isinstance(subject, str):
                return WorkReference(kind, subject)
    return None


def _to_visibility_timeout(seconds: float) -> int:
    return max(1, min(round(seconds), MAX_INVISIBLE_SECONDS))


async def _in_thread(operation: Callable[..., Any], **arguments: Any) -> Any:
    return await asyncio.to_thread(_call, operation, arguments)


async def _in_own_thread(operation: Callable[..., Any], **arguments: Any) -> Any:
    """For a request that waits: at exit, the process waits for threads of the pool, but not for this one."""
    loop = asyncio.get_running_loop()
    response: asyncio.Future[Any] = loop.create_future()

    def give(set_: Callable[[Any], None], value: object) -> None:
        if not response.done():
            set_(value)

    def call() -> None:
        try:
            found = _call(operation, arguments)
        except Exception as error:  # noqa: BLE001  # raised in the waiting task
            outcome = (response.set_exception, error)
        else:
            outcome = (response.set_result, found)
        with suppress(RuntimeError):  # the event loop has ended meanwhile
            loop.call_soon_threadsafe(give, *outcome)

    threading.Thread(target=call, daemon=True).start()
    return await response


def _call(operation: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    errors: Any = import_module("botocore.exceptions")
    try:
        return operation(**arguments)
    except errors.ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if status >= 500 or "Throttl" in code or code == "RequestLimitExceeded":
            raise TransientError(f"Amazon SQS limits the request rate ({code}).") from None
        raise OperatorError(
            f"Amazon SQS rejected the request ({code}). Check POSTROOM_QUEUE, and that the credentials may"
            " send, receive, delete, change the visibility of messages, and read the queue's attributes."
        ) from None
    except errors.NoCredentialsError:
        raise OperatorError(
            "No credentials for Amazon SQS were found."
            " Set AWS_PROFILE or AWS_ACCESS_KEY_ID, or give this machine a role."
        ) from None
    except errors.BotoCoreError as error:
        raise TransientError(f"Amazon SQS cannot be reached ({type(error).__name__}).") from None
