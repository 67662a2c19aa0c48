"""The functions of the users.settings.cse methods: identities and key pairs of client-side encryption.

The simulator stores them and encrypts nothing. Only service accounts may call them: Gmail admits users only
with hardware keys, which are not simulated.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7

from mailsim.gmail.context import GmailCallContext
from mailsim.gmail.errors import bad_request, not_found, precondition

MAX_PAGE = 100
DEFAULT_PAGE = 20
_OBLITERATE_AFTER = timedelta(days=30)


def list_identities(context: GmailCallContext) -> dict[str, Any]:
    return _list_page(context, "cseIdentities", list(context.settings.cse_identities.values()))


def get_identity(context: GmailCallContext) -> dict[str, Any]:
    address = context.args.get("cseEmailAddress") or context.args.get("emailAddress", "")
    identity = context.settings.cse_identities.get(address.lower())
    if identity is None:
        raise not_found()
    return identity


def create_identity(context: GmailCallContext) -> dict[str, Any]:
    address = context.body.get("emailAddress", "")
    if address.lower() != context.gmail_mailbox.mailbox.address.lower():
        raise bad_request("The email address must be the primary address of the user")
    if address.lower() in context.settings.cse_identities:
        raise bad_request("The identity already exists")
    identity = {"emailAddress": address, **_read_key_pairs(context)}
    context.settings.cse_identities[address.lower()] = identity
    return identity


def patch_identity(context: GmailCallContext) -> dict[str, Any]:
    identity = get_identity(context)
    changed = {"emailAddress": identity["emailAddress"], **_read_key_pairs(context)}
    context.settings.cse_identities[identity["emailAddress"].lower()] = changed
    return changed


def delete_identity(context: GmailCallContext) -> None:
    del context.settings.cse_identities[get_identity(context)["emailAddress"].lower()]


def _read_key_pairs(context: GmailCallContext) -> dict[str, Any]:
    """Read the key pairs of an identity, which must exist and be enabled."""
    names = ("signingKeyPairId", "encryptionKeyPairId")
    if separate := context.body.get("signAndEncryptKeyPairs"):
        ids = [separate.get(name) for name in names]
        config: dict[str, Any] = {"signAndEncryptKeyPairs": dict(zip(names, ids, strict=True))}
    else:
        ids = [context.body.get("primaryKeyPairId")]
        config = {"primaryKeyPairId": ids[0]}
    for key_pair_id in ids:
        pair = context.settings.cse_key_pairs.get(str(key_pair_id))
        if pair is None or pair["enablementState"] != "enabled":
            raise bad_request("The key pair of the identity does not exist or is not enabled")
    return config


def list_key_pairs(context: GmailCallContext) -> dict[str, Any]:
    return _list_page(context, "cseKeyPairs", list(context.settings.cse_key_pairs.values()))


def get_key_pair(context: GmailCallContext) -> dict[str, Any]:
    pair = context.settings.cse_key_pairs.get(context.args["keyPairId"])
    if pair is None:
        raise not_found()
    return pair


def create_key_pair(context: GmailCallContext) -> dict[str, Any]:
    """Store a certificate chain; the simulator does not validate it."""
    try:
        chain = pkcs7.load_pem_pkcs7_certificates(context.body.get("pkcs7", "").encode())
    except ValueError as error:
        raise bad_request("Invalid PKCS#7 certificate chain") from error
    if not chain:
        raise bad_request("The PKCS#7 file has no certificate")
    registry = context.google.sim.registry
    unique = registry.new_bytes(f"key pair of {context.gmail_mailbox.mailbox.address}", 12).hex()
    pair: dict[str, Any] = {
        "keyPairId": unique,
        "enablementState": "enabled",
        "pem": "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in chain),
        "subjectEmailAddresses": _list_addresses(chain[0]),
        "privateKeyMetadata": _read_private_keys(context.body.get("privateKeyMetadata", []), unique),
    }
    context.settings.cse_key_pairs[unique] = {name: value for name, value in pair.items() if value}
    return context.settings.cse_key_pairs[unique]


def _list_addresses(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return names.get_values_for_type(x509.RFC822Name)


def _read_private_keys(given: object, unique: str) -> list[dict[str, Any]]:
    """Read where the private keys are: at a key service or on a hardware key."""
    keys = cast("list[object]", given) if isinstance(given, list) else []
    fields = {"kaclsKeyMetadata": ("kaclsUri", "kaclsData"), "hardwareKeyMetadata": ("description",)}
    found: list[dict[str, Any]] = []
    for number, key in enumerate(keys):
        known: Mapping[str, Any] = cast("Mapping[str, Any]", key) if isinstance(key, dict) else {}
        place = next((name for name in fields if isinstance(known.get(name), dict)), None)
        if place is None:
            raise bad_request("Invalid privateKeyMetadata")
        texts = {name: str(known[place].get(name, "")) for name in fields[place]}
        found.append({"privateKeyMetadataId": f"{unique}-{number}", place: texts})
    return found


def set_enablement(state: str) -> Callable[[GmailCallContext], dict[str, Any]]:
    """Make the function that enables or disables a key pair."""

    def change(context: GmailCallContext) -> dict[str, Any]:
        pair = get_key_pair(context)
        pair.pop("disableTime", None)
        pair["enablementState"] = state
        if state == "disabled":
            moment = datetime.fromtimestamp(context.google.now(), UTC)
            pair["disableTime"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        return pair

    return change


def obliterate_key_pair(context: GmailCallContext) -> None:
    """Delete a key pair that was disabled for more than 30 days."""
    pair = get_key_pair(context)
    disabled = datetime.fromisoformat(pair["disableTime"]) if "disableTime" in pair else None
    if disabled is None or context.google.now() < (disabled + _OBLITERATE_AFTER).timestamp():
        raise precondition("A key pair must be disabled for 30 days before it is obliterated.")
    del context.settings.cse_key_pairs[pair["keyPairId"]]


def _list_page(context: GmailCallContext, name: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    ids, token = context.gmail_mailbox.ids, context.args.get("pageToken", "")
    start = ids.from_page_token(token) if token else 0
    if start is None:
        raise bad_request("Invalid pageToken")
    size = min(context.args.get("pageSize") or DEFAULT_PAGE, MAX_PAGE)
    response: dict[str, Any] = {name: entries[start : start + size]} if entries[start:] else {}
    if start + size < len(entries):
        response["nextPageToken"] = ids.to_page_token(start + size)
    return response
