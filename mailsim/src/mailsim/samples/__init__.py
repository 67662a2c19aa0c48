"""letters writes realistic mail: an Order in, RFC 5322 bytes out, the same bytes for the same order.

It knows no mailbox, provider or clock. Heavy libraries load with the first letter that needs them.
"""

import functools
import importlib
from collections.abc import Callable

from mailsim.samples.document_facts import facts
from mailsim.samples.mailbox_plan import (
    THREAD_SPAN,
    message_id_for,
    order_for,
    reply_parent,
    thread_numbers,
    thread_start,
)
from mailsim.samples.message_kinds import KINDS, kinds, variants
from mailsim.samples.message_spec import MessageSpec, Person
from mailsim.samples.reference_attachments import REFERENCE_HEADER, CloudLink, cloud_links

__all__ = [
    "REFERENCE_HEADER",
    "THREAD_SPAN",
    "CloudLink",
    "MessageSpec",
    "Person",
    "cloud_links",
    "facts",
    "kinds",
    "message_id_for",
    "order_for",
    "reply_parent",
    "thread_numbers",
    "thread_start",
    "variants",
    "write",
]


@functools.cache
def _writer(kind: str) -> Callable[[MessageSpec], bytes]:
    module, _, function = KINDS[kind].writer.partition(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), function)


def write(order: MessageSpec) -> bytes:
    """The message that the order asks for, as it would travel: header lines and body with CRLF."""
    return _writer(order.kind)(order)
