"""MAPI properties of messages that clients request by number with $expand; the size of a message so far."""

import re
from typing import Any

from mailsim.graph.errors import bad_request
from mailsim.graph.message_json import MessageView

_BY_NUMBER = re.compile(r"\$?filter=\s*id\s+eq\s+'(\w+) 0x([0-9a-f]{1,4})'\s*", re.IGNORECASE)
_SIZE = 0x0E08  # PidTagMessageSize
_NUMBER_TYPES = {"integer": "Integer", "long": "Long"}


def expand(view: MessageView, options: str) -> list[dict[str, Any]]:
    """Return the JSON for $expand=singleValueExtendedProperties; Graph requires a filter by id."""
    wanted = _BY_NUMBER.fullmatch(options)
    if wanted is None:
        raise bad_request("Expanding singleValueExtendedProperties needs a $filter by its id.")
    type_name = _NUMBER_TYPES.get(wanted[1].lower())
    if type_name is None or int(wanted[2], 16) != _SIZE:
        return []
    # Graph writes the number without leading zeros.
    return [{"id": f"{type_name} 0x{_SIZE:x}", "value": str(len(view.mailbox.raw(view.number)))}]
