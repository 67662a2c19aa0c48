"""The rows of the method table for users.settings. `methods` adds them to its own."""

from mailsim.gmail import settings
from mailsim.gmail.context import GmailMethod, MethodFunction
from mailsim.gmail.settings import by_service_account

_PREFIX = "https://www.googleapis.com/auth/gmail."
_BASIC, _SHARING = f"{_PREFIX}settings.basic", f"{_PREFIX}settings.sharing"
_SEE = frozenset({"https://mail.google.com/", f"{_PREFIX}modify", f"{_PREFIX}readonly", _BASIC})
_VALUES: dict[str, tuple[str, dict[str, type]]] = {
    "autoForwarding": ("AutoForwarding", {"enabled": bool, "emailAddress": str, "disposition": str}),
    "imap": (
        "ImapSettings",
        {"enabled": bool, "autoExpunge": bool, "expungeBehavior": str, "maxFolderSize": int},
    ),
    "pop": ("PopSettings", {"accessWindow": str, "disposition": str}),
    "vacation": (
        "VacationSettings",
        {
            "enableAutoReply": bool,
            "responseSubject": str,
            "responseBodyPlainText": str,
            "responseBodyHtml": str,
            "restrictToContacts": bool,
            "restrictToDomain": bool,
            "startTime": object,
            "endTime": object,
        },
    ),
    "language": ("LanguageSettings", {"displayLanguage": str}),
}
_SEND_AS: dict[str, type] = {
    "sendAsEmail": str,
    "displayName": str,
    "replyToAddress": str,
    "signature": str,
    "isPrimary": bool,
    "isDefault": bool,
    "treatAsAlias": bool,
    "smtpMsa": dict,
    "verificationStatus": str,
}


def _method(
    id_: str,
    http: str,
    path: str,
    scopes: frozenset[str],
    function: MethodFunction,
    response_type: str = "",
    properties: dict[str, type] | None = None,
) -> GmailMethod:
    segments = ("settings", *path.split("/"))
    return GmailMethod(
        f"users.settings.{id_}", http, segments, scopes, function, response_type, properties=properties or {}
    )


def _list_value_methods() -> list[GmailMethod]:
    found: list[GmailMethod] = []
    for name, (kind, properties) in _VALUES.items():
        title = name[0].upper() + name[1:]
        update, scope = settings.update_value(name), _BASIC
        if name == "autoForwarding":
            update, scope = by_service_account(update), _SHARING
        found += [
            _method(f"get{title}", "GET", name, _SEE, settings.get_value(name), kind),
            _method(f"update{title}", "PUT", name, frozenset({scope}), update, kind, properties),
        ]
    return found


def _list_address_methods(
    name: str,
    key: str,
    types: tuple[str, str],
    reads: tuple[MethodFunction, MethodFunction],
    writes: tuple[MethodFunction, MethodFunction],
    properties: dict[str, type],
) -> list[GmailMethod]:
    """List list, get, create and delete of a list of addresses."""
    sharing = frozenset({_SHARING})
    create, delete = map(by_service_account, writes)
    return [
        _method(f"{name}.list", "GET", name, _SEE, reads[0], types[0]),
        _method(f"{name}.get", "GET", f"{name}/{{{key}}}", _SEE, reads[1], types[1]),
        _method(f"{name}.create", "POST", name, sharing, create, types[1], properties),
        _method(f"{name}.delete", "DELETE", f"{name}/{{{key}}}", sharing, delete),
    ]


_ALIAS = "sendAs/{sendAsEmail}"
_CHANGE = frozenset({_BASIC, _SHARING})
SETTINGS_METHODS: tuple[GmailMethod, ...] = (
    *_list_value_methods(),
    *_list_address_methods(
        "sendAs",
        "sendAsEmail",
        ("ListSendAsResponse", "SendAs"),
        (settings.list_send_as, settings.get_send_as),
        (settings.create_send_as, settings.delete_send_as),
        _SEND_AS,
    ),
    _method("sendAs.update", "PUT", _ALIAS, _CHANGE, settings.patch_send_as, "SendAs", _SEND_AS),
    _method("sendAs.patch", "PATCH", _ALIAS, _CHANGE, settings.patch_send_as, "SendAs", _SEND_AS),
    _method(
        "sendAs.verify",
        "POST",
        f"{_ALIAS}/verify",
        frozenset({_SHARING}),
        by_service_account(settings.verify_send_as),
    ),
    *_list_address_methods(
        "forwardingAddresses",
        "forwardingEmail",
        ("ListForwardingAddressesResponse", "ForwardingAddress"),
        (settings.list_forwarding, settings.get_forwarding),
        (settings.create_forwarding, settings.delete_forwarding),
        {"forwardingEmail": str, "verificationStatus": str},
    ),
    *_list_address_methods(
        "delegates",
        "delegateEmail",
        ("ListDelegatesResponse", "Delegate"),
        (by_service_account(settings.list_delegates), by_service_account(settings.get_delegate)),
        (settings.create_delegate, settings.delete_delegate),
        {"delegateEmail": str, "verificationStatus": str},
    ),
)
