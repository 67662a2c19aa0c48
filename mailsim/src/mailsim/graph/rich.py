"""Notifications with resource data: selected properties, encrypted for the subscriber, and their tokens."""

import base64
import hmac
import secrets
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, padding
from cryptography.hazmat.primitives.asymmetric import padding as rsa_padding
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from mailsim.entra.scopes import GRAPH
from mailsim.graph import wire
from mailsim.graph.context import Graph, encode
from mailsim.graph.subscribed import Subscription
from mailsim.graph.wire import View

PUBLISHER = "0bf30f3b-4a52-48df-9a82-234910c4a086"
_DATES = ("createdDateTime", "lastModifiedDateTime", "receivedDateTime", "sentDateTime")
_SHA1 = hashes.SHA1()  # noqa: S303 - the service's choice for OAEP


def content(view: View, select: tuple[str, ...]) -> dict[str, Any]:
    """The selected properties, annotated as in no other answer of Graph."""
    names = [name for name in wire.BUILDERS if name in select or name == "id"]
    shown = wire.message(view, names, typed=True)
    answer: dict[str, Any] = {}
    for name, value in shown.items():
        if name in _DATES:
            answer[f"{name}@odata.type"] = "#DateTimeOffset"
        answer[name] = value
    return answer


def seal(view: View, select: tuple[str, ...], certificate: x509.Certificate, name: str) -> dict[str, str]:
    """A new AES key for each item, itself encrypted with the subscriber's public key."""
    key = secrets.token_bytes(32)
    padder = padding.PKCS7(128).padder()
    plain = padder.update(encode(content(view, select))) + padder.finalize()
    encryptor = Cipher(algorithms.AES(key), modes.CBC(key[:16])).encryptor()
    data = encryptor.update(plain) + encryptor.finalize()
    public = certificate.public_key()
    assert isinstance(public, rsa.RSAPublicKey)
    sealed = public.encrypt(key, rsa_padding.OAEP(rsa_padding.MGF1(_SHA1), _SHA1, None))
    return {
        "data": base64.b64encode(data).decode(),
        "dataSignature": base64.b64encode(hmac.digest(key, data, "sha256")).decode(),
        "dataKey": base64.b64encode(sealed).decode(),
        "encryptionCertificateId": name,
        "encryptionCertificateThumbprint": certificate.fingerprint(_SHA1).hex().upper(),
    }


def tokens(graph: Graph, subscriptions: list[Subscription]) -> list[str]:
    """One for each application and tenant; both versions of the token occur."""
    pairs = dict.fromkeys((one.url_app_id or one.application_id, one.access.tid) for one in subscriptions)
    return [_token(graph, application, tenant) for application, tenant in pairs]


def _token(graph: Graph, application: str, tenant: str) -> str:
    now = int(graph.sim.clock.time())
    graph.vouched += 1
    base = graph.sim.places.get("https", GRAPH)
    times = {"aud": application, "iat": now, "nbf": now, "exp": now + 3600, "tid": tenant}
    if graph.vouched % 2:
        claims = {**times, "ver": "2.0", "iss": f"{base}/{tenant}/v2.0", "azp": PUBLISHER}
    else:
        claims = {**times, "ver": "1.0", "iss": f"https://sts.windows.net/{tenant}/", "appid": PUBLISHER}
    return graph.entra.grants.signer.sign(claims)
