"""letters writes realistic mail: an Order in, RFC 5322 bytes out, the same bytes for the same order.

It knows no mailbox, provider or clock. Heavy libraries load with the first letter that needs them.
"""

import functools
import importlib
from collections.abc import Callable

from mailsim.letters.catalogue import KINDS, kinds, variants
from mailsim.letters.choice import SPAN, message_id_for, order_for, reply_parent, thread_numbers, thread_start
from mailsim.letters.cloud import REFERENCE_HEADER, CloudLink, cloud_links
from mailsim.letters.order import Order, Person
from mailsim.letters.truth import facts

__all__ = [
    "REFERENCE_HEADER",
    "SPAN",
    "CloudLink",
    "Order",
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
def _writer(kind: str) -> Callable[[Order], bytes]:
    module, _, function = KINDS[kind].writer.partition(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), function)


def write(order: Order) -> bytes:
    """The message that the order asks for, as it would travel: header lines and body with CRLF."""
    return _writer(order.kind)(order)
