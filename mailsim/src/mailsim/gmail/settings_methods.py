"""The rows of the method table for users.settings. `methods` adds them to its own."""

from collections.abc import Mapping

from mailsim.gmail import cse, filters, settings, smime
from mailsim.gmail.context import GmailMethod, MethodFunction
from mailsim.gmail.parameters import QueryParameter
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
    parameters: Mapping[str, QueryParameter] | None = None,
) -> GmailMethod:
    segments = ("settings", *path.split("/"))
    return GmailMethod(
        f"users.settings.{id_}",
        http,
        segments,
        scopes,
        function,
        response_type,
        parameters or {},
        properties or {},
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
_SEE_SHARED = _SEE | _CHANGE
_SMIME: dict[str, type] = {
    "id": str,
    "issuerCn": str,
    "isDefault": bool,
    "expiration": object,
    "encryptedKeyPassword": str,
    "pem": str,
    "pkcs12": str,
}
_IDENTITY: dict[str, type] = {"emailAddress": str, "primaryKeyPairId": str, "signAndEncryptKeyPairs": dict}
_KEY_PAIR: dict[str, type] = {
    "keyPairId": str,
    "pkcs7": str,
    "pem": str,
    "subjectEmailAddresses": list,
    "enablementState": str,
    "disableTime": str,
    "privateKeyMetadata": object,
}
_PAGE = {"pageSize": QueryParameter("uint32"), "pageToken": QueryParameter()}


def _list_filter_methods() -> list[GmailMethod]:
    one, basic = "filters/{id}", frozenset({_BASIC})
    properties: dict[str, type] = {"id": str, "criteria": dict, "action": dict}
    return [
        _method("filters.list", "GET", "filters", _SEE, filters.list_filters, "ListFiltersResponse"),
        _method("filters.get", "GET", one, _SEE, filters.get_filter, "Filter"),
        _method("filters.create", "POST", "filters", basic, filters.create_filter, "Filter", properties),
        _method("filters.delete", "DELETE", one, basic, filters.delete_filter),
    ]


def _list_smime_methods() -> list[GmailMethod]:
    name, path = "sendAs.smimeInfo", f"{_ALIAS}/smimeInfo"
    one = f"{path}/{{id}}"
    return [
        _method(f"{name}.list", "GET", path, _SEE_SHARED, smime.list_smime_infos, "ListSmimeInfoResponse"),
        _method(f"{name}.get", "GET", one, _SEE_SHARED, smime.get_smime_info, "SmimeInfo"),
        _method(f"{name}.insert", "POST", path, _CHANGE, smime.insert_smime_info, "SmimeInfo", _SMIME),
        _method(f"{name}.delete", "DELETE", one, _CHANGE, smime.delete_smime_info),
        _method(f"{name}.setDefault", "POST", f"{one}/setDefault", _CHANGE, smime.set_default_smime_info),
    ]


def _list_cse_methods() -> list[GmailMethod]:
    identities, pairs = "cse/identities", "cse/keypairs"
    identity, pair = f"{identities}/{{cseEmailAddress}}", f"{pairs}/{{keyPairId}}"
    chain = {"chainValidation": QueryParameter(choices=("all", "none"))}
    rows: list[tuple[str, str, str, MethodFunction, str, dict[str, type], Mapping[str, QueryParameter]]] = [
        ("identities.list", "GET", identities, cse.list_identities, "ListCseIdentitiesResponse", {}, _PAGE),
        ("identities.get", "GET", identity, cse.get_identity, "CseIdentity", {}, {}),
        ("identities.create", "POST", identities, cse.create_identity, "CseIdentity", _IDENTITY, {}),
        (
            "identities.patch",
            "PATCH",
            f"{identities}/{{emailAddress}}",
            cse.patch_identity,
            "CseIdentity",
            _IDENTITY,
            {},
        ),
        ("identities.delete", "DELETE", identity, cse.delete_identity, "", {}, {}),
        ("keypairs.list", "GET", pairs, cse.list_key_pairs, "ListCseKeyPairsResponse", {}, _PAGE),
        ("keypairs.get", "GET", pair, cse.get_key_pair, "CseKeyPair", {}, {}),
        ("keypairs.create", "POST", pairs, cse.create_key_pair, "CseKeyPair", _KEY_PAIR, chain),
        ("keypairs.enable", "POST", f"{pair}:enable", cse.set_enablement("enabled"), "CseKeyPair", {}, {}),
        ("keypairs.disable", "POST", f"{pair}:disable", cse.set_enablement("disabled"), "CseKeyPair", {}, {}),
        ("keypairs.obliterate", "POST", f"{pair}:obliterate", cse.obliterate_key_pair, "", {}, {}),
    ]
    return [
        _method(
            f"cse.{name}",
            http,
            path,
            _SEE_SHARED if http == "GET" else _CHANGE,
            by_service_account(function),
            response_type,
            properties,
            parameters,
        )
        for name, http, path, function, response_type, properties, parameters in rows
    ]


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
    *_list_filter_methods(),
    *_list_smime_methods(),
    *_list_cse_methods(),
)
