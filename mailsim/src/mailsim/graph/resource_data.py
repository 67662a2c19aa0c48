"""Resource data for rich notifications: selected properties, their encryption, and validation tokens.

It builds them; `notifications` sends them.
"""

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
from mailsim.graph import message_json
from mailsim.graph.context import GraphContext
from mailsim.graph.message_json import MessageView
from mailsim.graph.request import encode_json
from mailsim.graph.subscription_model import GraphSubscription

PUBLISHER = "0bf30f3b-4a52-48df-9a82-234910c4a086"
_DATES = ("createdDateTime", "lastModifiedDateTime", "receivedDateTime", "sentDateTime")
_SHA1 = hashes.SHA1()  # noqa: S303 - the service's choice for OAEP


def build_content(view: MessageView, select: tuple[str, ...]) -> dict[str, Any]:
    """Return the selected properties with type annotations, which only notifications have."""
    names = [name for name in message_json.BUILDERS if name in select or name == "id"]
    properties = message_json.to_json(view, names, typed=True)
    response: dict[str, Any] = {}
    for name, value in properties.items():
        if name in _DATES:
            response[f"{name}@odata.type"] = "#DateTimeOffset"
        response[name] = value
    return response


def encrypt_content(
    view: MessageView, select: tuple[str, ...], certificate: x509.Certificate, name: str
) -> dict[str, str]:
    """Encrypt with a new AES key, which is itself encrypted with the subscriber's public key."""
    key = secrets.token_bytes(32)
    padder = padding.PKCS7(128).padder()
    plain = padder.update(encode_json(build_content(view, select))) + padder.finalize()
    encryptor = Cipher(algorithms.AES(key), modes.CBC(key[:16])).encryptor()
    data = encryptor.update(plain) + encryptor.finalize()
    public = certificate.public_key()
    assert isinstance(public, rsa.RSAPublicKey)
    encrypted_key = public.encrypt(key, rsa_padding.OAEP(rsa_padding.MGF1(_SHA1), _SHA1, None))
    return {
        "data": base64.b64encode(data).decode(),
        "dataSignature": base64.b64encode(hmac.digest(key, data, "sha256")).decode(),
        "dataKey": base64.b64encode(encrypted_key).decode(),
        "encryptionCertificateId": name,
        "encryptionCertificateThumbprint": certificate.fingerprint(_SHA1).hex().upper(),
    }


def make_validation_tokens(graph: GraphContext, subscriptions: list[GraphSubscription]) -> list[str]:
    """Make one token per application and tenant, in both versions that Microsoft issues."""
    pairs = dict.fromkeys((item.url_app_id or item.application_id, item.access.tid) for item in subscriptions)
    return [_make_validation_token(graph, application, tenant) for application, tenant in pairs]


def _make_validation_token(graph: GraphContext, application: str, tenant: str) -> str:
    now = int(graph.sim.clock.time())
    graph.validation_token_count += 1
    base = graph.sim.base_urls.get("https", GRAPH)
    times = {"aud": application, "iat": now, "nbf": now, "exp": now + 3600, "tid": tenant}
    if graph.validation_token_count % 2:
        claims = {**times, "ver": "2.0", "iss": f"{base}/{tenant}/v2.0", "azp": PUBLISHER}
    else:
        claims = {**times, "ver": "1.0", "iss": f"https://sts.windows.net/{tenant}/", "appid": PUBLISHER}
    return graph.entra.grants.signer.sign(claims)
