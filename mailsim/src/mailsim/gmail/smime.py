"""The functions of the users.settings.sendAs.smimeInfo methods: the S/MIME certificates of an alias.

The simulator stores them; it signs nothing with them.
"""

from base64 import urlsafe_b64decode
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, pkcs12
from cryptography.x509 import Certificate
from cryptography.x509.oid import NameOID

from mailsim.gmail.context import GmailCallContext
from mailsim.gmail.errors import bad_request, not_found
from mailsim.gmail.settings import get_send_as


def list_smime_infos(context: GmailCallContext) -> dict[str, Any]:
    found = list(_get_infos(context).values())
    return {"smimeInfo": found} if found else {}


def get_smime_info(context: GmailCallContext) -> dict[str, Any]:
    info = _get_infos(context).get(context.args["id"])
    if info is None:
        raise not_found()
    return info


def delete_smime_info(context: GmailCallContext) -> None:
    del _get_infos(context)[get_smime_info(context)["id"]]


def insert_smime_info(context: GmailCallContext) -> dict[str, Any]:
    """Store the certificate of a PKCS#12 file. File and password are never returned."""
    certificates = _read_certificates(context)
    infos = _get_infos(context)
    unique = context.google.sim.registry.new_bytes(f"smime of {context.gmail_mailbox.mailbox.address}", 8)
    issuer = certificates[0].issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    infos[unique.hex()] = {
        "id": unique.hex(),
        "issuerCn": str(issuer[0].value) if issuer else "",
        "isDefault": False,
        "expiration": str(int(certificates[0].not_valid_after_utc.timestamp() * 1000)),
        "pem": "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates),
    }
    return infos[unique.hex()]


def set_default_smime_info(context: GmailCallContext) -> None:
    chosen = get_smime_info(context)
    for info in _get_infos(context).values():
        info["isDefault"] = info is chosen


def _get_infos(context: GmailCallContext) -> dict[str, dict[str, Any]]:
    address = get_send_as(context)["sendAsEmail"].lower()
    return context.settings.smime.setdefault(address, {})


def _read_certificates(context: GmailCallContext) -> list[Certificate]:
    password = context.body.get("encryptedKeyPassword", "").encode() or None
    try:
        data = urlsafe_b64decode(context.body.get("pkcs12", "") + "===")
        _, own, others = pkcs12.load_key_and_certificates(data, password)
    except (ValueError, TypeError) as error:
        raise bad_request("Invalid PKCS#12 file or password") from error
    if own is None:
        raise bad_request("The PKCS#12 file has no certificate")
    return [own, *others]
