"""Generator of realistic sample mail: plans mailboxes, and writes a MessageSpec as RFC 5322 bytes.

The same spec always gives the same bytes. The package knows no mailbox state, provider or clock. Heavy
libraries are imported with the first message that needs them.
"""

import functools
import importlib
from collections.abc import Callable

from mailsim.samples.document_facts import get_document_facts
from mailsim.samples.mailbox_plan import (
    THREAD_SPAN,
    find_reply_parent,
    find_thread_start,
    list_thread_numbers,
    make_message_id,
    plan_message,
)
from mailsim.samples.message_kinds import KINDS, list_kinds, list_variants
from mailsim.samples.message_spec import MessageSpec, Person
from mailsim.samples.phrases import LANGUAGES
from mailsim.samples.reference_attachments import REFERENCE_HEADER, CloudLink, parse_cloud_links

__all__ = [
    "LANGUAGES",
    "REFERENCE_HEADER",
    "THREAD_SPAN",
    "CloudLink",
    "MessageSpec",
    "Person",
    "add_delivered_to",
    "find_reply_parent",
    "find_thread_start",
    "get_document_facts",
    "list_kinds",
    "list_thread_numbers",
    "list_variants",
    "make_message_id",
    "parse_cloud_links",
    "plan_message",
    "write_message",
]


@functools.cache
def _load_writer(kind: str) -> Callable[[MessageSpec], bytes]:
    module, _, function = KINDS[kind].writer.partition(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), function)


def write_message(spec: MessageSpec) -> bytes:
    """Write the message that a spec describes, with CRLF line endings as on the wire."""
    return add_delivered_to(_load_writer(spec.kind)(spec), spec.delivered_to)


def add_delivered_to(raw: bytes, address: str) -> bytes:
    """Add the header Delivered-To, unless the provider of the mailbox does not record it."""
    return b"Delivered-To: %b\r\n%b" % (address.encode(), raw) if address else raw
