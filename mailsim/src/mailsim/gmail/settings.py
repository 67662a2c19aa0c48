"""A mailbox's settings: aliases, forwarding addresses, delegates, and the settings that are one object each.

The simulator stores them and does not act on them: it forwards nothing and sends no automatic replies.
"""

from collections.abc import Callable, Mapping
from typing import Any

from mailsim.gmail.context import GmailCallContext, MethodFunction
from mailsim.gmail.errors import bad_field, bad_request, forbidden, not_found
from mailsim.gmail.gmail_mailbox import GmailMailbox
from mailsim.google.service_accounts import is_service_account

_DISPOSITIONS = ("leaveInInbox", "archive", "trash", "markRead")
_CHOICES = {
    "disposition": _DISPOSITIONS,
    "expungeBehavior": ("archive", "trash", "deleteForever"),
    "accessWindow": ("disabled", "fromNowOn", "allMail"),
}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "autoForwarding": {"enabled": False},
    "imap": {"enabled": True, "autoExpunge": True, "expungeBehavior": "archive", "maxFolderSize": 0},
    "pop": {"accessWindow": "disabled", "disposition": "leaveInInbox"},
    "vacation": {"enableAutoReply": False},
    "language": {"displayLanguage": "en"},
}
_FOLDER_SIZES = (0, 1000, 2000, 5000, 10_000)
_RESTRICTED = "Access restricted to service accounts that have been delegated domain-wide authority"


def get_value(name: str) -> MethodFunction:
    """Make the function that returns one of the settings of `_DEFAULTS`."""
    return lambda context: context.settings.values.get(name, _DEFAULTS[name])


def update_value(name: str) -> MethodFunction:
    """Make the function that replaces one of the settings of `_DEFAULTS`."""

    def update(context: GmailCallContext) -> dict[str, Any]:
        body = dict(context.body)
        for key, choices in _CHOICES.items():
            if key in body and body[key] not in choices:
                raise bad_request(f"Invalid {key}")
        _CHECKS.get(name, _accept)(context, body)
        context.settings.values[name] = _DEFAULTS[name] | body
        return context.settings.values[name]

    return update


def _accept(_context: GmailCallContext, _body: dict[str, Any]) -> None:
    """Accept a setting without further checks."""


def _check_auto_forwarding(context: GmailCallContext, body: dict[str, Any]) -> None:
    if body.get("enabled"):
        address = context.settings.forwarding.get(str(body.get("emailAddress", "")).lower(), {})
        if address.get("verificationStatus") != "accepted":
            raise bad_request("Unrecognized forwarding address")


def _check_imap(_context: GmailCallContext, body: dict[str, Any]) -> None:
    if body.get("maxFolderSize", 0) not in _FOLDER_SIZES:
        raise bad_request("Invalid maxFolderSize")


def _check_vacation(_context: GmailCallContext, body: dict[str, Any]) -> None:
    for key in ("startTime", "endTime"):
        if key in body:
            text = str(body[key])
            if not (text.isascii() and text.isdigit() and len(text) <= 18):
                raise bad_field(key, f"Invalid value at '{key}' (TYPE_INT64), \"{text[:100]}\"")
            body[key] = text  # clients send numbers too
    if "startTime" in body and "endTime" in body and int(body["startTime"]) >= int(body["endTime"]):
        raise bad_request("startTime must precede endTime")
    named = body.get("responseSubject") or body.get("responseBodyPlainText") or body.get("responseBodyHtml")
    if body.get("enableAutoReply") and not named:
        raise bad_request("Vacation responder needs a subject or a body")


def _check_language(_context: GmailCallContext, body: dict[str, Any]) -> None:
    if not body.get("displayLanguage"):
        raise bad_request("Invalid display language")


_CHECKS: Mapping[str, Callable[[GmailCallContext, dict[str, Any]], None]] = {
    "autoForwarding": _check_auto_forwarding,
    "imap": _check_imap,
    "vacation": _check_vacation,
    "language": _check_language,
}


def by_service_account(function: MethodFunction) -> MethodFunction:
    """Restrict a method to service accounts with domain-wide delegation, as Gmail does."""

    def run(context: GmailCallContext) -> dict[str, Any] | None:
        if not is_service_account(context.client.name):
            raise forbidden(_RESTRICTED)
        return function(context)

    return run


def list_send_as(context: GmailCallContext) -> dict[str, Any]:
    return {"sendAs": [_get_primary(context), *context.settings.aliases.values()]}


def get_send_as(context: GmailCallContext) -> dict[str, Any]:
    address = context.args["sendAsEmail"].lower()
    if address == context.gmail_mailbox.mailbox.address.lower():
        return _get_primary(context)
    return _find(context.settings.aliases, address)


def create_send_as(context: GmailCallContext) -> dict[str, Any]:
    address = _read_address(context, "sendAsEmail", context.settings.aliases)
    if address.lower() == context.gmail_mailbox.mailbox.address.lower():
        raise bad_request("Send-as alias already exists")
    alias = {"displayName": "", "replyToAddress": "", "signature": "", "treatAsAlias": False}
    context.settings.aliases[address.lower()] = (
        alias
        | _read_alias(context)
        | {"sendAsEmail": address, "verificationStatus": _get_verification(context.gmail_mailbox, address)}
    )
    return context.settings.aliases[address.lower()]


def patch_send_as(context: GmailCallContext) -> dict[str, Any]:
    """Change an alias. Only service accounts may change another than the primary one."""
    before = get_send_as(context)
    if before.get("isPrimary"):
        changed = {key: value for key, value in _read_alias(context).items() if key != "treatAsAlias"}
        context.settings.primary.update(changed)
        return _get_primary(context)
    if not is_service_account(context.client.name):
        raise forbidden(_RESTRICTED)
    before.update(_read_alias(context))
    return before


def delete_send_as(context: GmailCallContext) -> None:
    if get_send_as(context).get("isPrimary"):
        raise bad_request("The primary send-as address cannot be deleted")
    del context.settings.aliases[context.args["sendAsEmail"].lower()]


def verify_send_as(context: GmailCallContext) -> None:
    """Send a verification message. The simulator sends none: the alias stays pending."""
    if get_send_as(context).get("verificationStatus") != "pending":
        raise bad_request("The send-as address is verified already")


def _get_primary(context: GmailCallContext) -> dict[str, Any]:
    account = context.gmail_mailbox.mailbox.account
    primary = {"displayName": account.name, "replyToAddress": "", "signature": ""}
    return (
        {"sendAsEmail": account.address}
        | primary
        | context.settings.primary
        | {
            "isPrimary": True,
            "isDefault": not any(a.get("isDefault") for a in context.settings.aliases.values()),
        }
    )


def _read_alias(context: GmailCallContext) -> dict[str, Any]:
    """Read what clients may write. A new default replaces the earlier one; passwords are write-only."""
    writable = ("displayName", "replyToAddress", "signature", "treatAsAlias", "isDefault", "smtpMsa")
    alias = {key: context.body[key] for key in writable if key in context.body}
    if "smtpMsa" in alias:
        known = {"host": str, "port": int, "securityMode": str, "username": str}
        server = alias["smtpMsa"]
        alias["smtpMsa"] = {key: server[key] for key, kind in known.items() if type(server.get(key)) is kind}
        if alias["smtpMsa"].get("securityMode", "none") not in {"none", "ssl", "starttls"}:
            raise bad_request("Invalid securityMode")
    if alias.pop("isDefault", False):
        for other in context.settings.aliases.values():
            other.pop("isDefault", None)
        if context.args.get("sendAsEmail", "").lower() != context.gmail_mailbox.mailbox.address.lower():
            alias["isDefault"] = True
    return alias


def list_forwarding(context: GmailCallContext) -> dict[str, Any]:
    found = list(context.settings.forwarding.values())
    return {"forwardingAddresses": found} if found else {}


def get_forwarding(context: GmailCallContext) -> dict[str, Any]:
    return _find(context.settings.forwarding, context.args["forwardingEmail"])


def create_forwarding(context: GmailCallContext) -> dict[str, Any]:
    address = _read_address(context, "forwardingEmail", context.settings.forwarding)
    status = _get_verification(context.gmail_mailbox, address)
    entry = {"forwardingEmail": address, "verificationStatus": status}
    context.settings.forwarding[address.lower()] = entry
    return entry


def delete_forwarding(context: GmailCallContext) -> None:
    entry = get_forwarding(context)
    auto = context.settings.values.get("autoForwarding", {})
    if str(auto.get("emailAddress", "")).lower() == entry["forwardingEmail"].lower():
        context.settings.values.pop("autoForwarding")  # deleting the address ends forwarding to it
    del context.settings.forwarding[entry["forwardingEmail"].lower()]


def list_delegates(context: GmailCallContext) -> dict[str, Any]:
    found = list(context.settings.delegates.values())
    return {"delegates": found} if found else {}


def get_delegate(context: GmailCallContext) -> dict[str, Any]:
    return _find(context.settings.delegates, context.args["delegateEmail"])


def create_delegate(context: GmailCallContext) -> dict[str, Any]:
    """Add a delegate, who must be a user of the same Workspace."""
    address = _read_address(context, "delegateEmail", context.settings.delegates)
    domain = context.gmail_mailbox.mailbox.address.rpartition("@")[2]
    known = context.google.find_account(address)
    if known is None or address.rpartition("@")[2].lower() != domain.lower():
        raise bad_request("Invalid delegate")
    entry = {"delegateEmail": address, "verificationStatus": "accepted"}
    context.settings.delegates[address.lower()] = entry
    return entry


def delete_delegate(context: GmailCallContext) -> None:
    del context.settings.delegates[get_delegate(context)["delegateEmail"].lower()]


def _find(entries: Mapping[str, dict[str, Any]], address: str) -> dict[str, Any]:
    entry = entries.get(address.lower())
    if entry is None:
        raise not_found()
    return entry


def _read_address(context: GmailCallContext, name: str, existing: Mapping[str, object]) -> str:
    address = context.body.get(name, "")
    local, _, domain = address.partition("@")
    if not local or not domain or any(character.isspace() for character in address):
        raise bad_request(f"Invalid {name}")
    if address.lower() in existing:
        raise bad_request(f"{name} already exists")
    return address


def _get_verification(gmail_mailbox: GmailMailbox, address: str) -> str:
    """Addresses of the own domain need no verification."""
    own = gmail_mailbox.mailbox.address.rpartition("@")[2].lower()
    return "accepted" if address.rpartition("@")[2].lower() == own else "pending"
