"""What a fuzz run feeds: every reader of foreign bytes, its samples, and the errors that it may raise."""

import io
import json
import time
import zipfile
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from unittest.mock import sentinel

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from documents.files import sample_files
from mailsim import samples
from mailsim.samples import MessageSpec, message_kinds
from postroom.documents.fields.einvoice_xml import parse_einvoice
from postroom.documents.files import html_sanitizer, pdf
from postroom.documents.files.container_decoders import CONTAINER_DECODERS
from postroom.documents.files.file_type import detect
from postroom.documents.files.html_sanitizer import MessageHtml, encode_message_html
from postroom.documents.files.unpack import unpack
from postroom.documents.sandbox.file_limits import FileLimits
from postroom.documents.sandbox.ipc import TaskRequest
from postroom.errors import LoginRejected, PushRejected, PushUnverifiable
from postroom.mime import parse
from postroom.mime.addresses import parse_addresses
from postroom.model import Secret
from postroom.ports import PushRequest
from postroom.providers import oauth
from postroom.providers.gmail.push import GmailPush
from postroom.providers.graph.push import GraphPush
from postroom.providers.openid import OpenIdConnect, _OpenIdConfiguration, _PublishedKey

LIMITS = FileLimits()
ISSUER, CLIENT = "https://login.example.com", "postroom"
AUDIENCE, ACCOUNT = "https://postroom.example.com/push", "push@project.example.com"


@dataclass(frozen=True)
class FuzzTarget:
    """A reader, its samples, and whether it runs in a child, where every error and crash is contained."""

    run: Callable[[bytes], object]
    samples: Sequence[bytes]
    allowed: tuple[type[Exception], ...] = ()
    in_child: bool = False


def list_messages() -> list[bytes]:
    kinds = [(kind, variant) for kind, each in message_kinds.KINDS.items() for variant in each.variants]
    specs = [MessageSpec(seed=7, kind=kind, variant=variant) for kind, variant in kinds if kind != "big"]
    return [raw for raw in map(samples.write_message, specs) if len(raw) < 20_000]


def read_message(content: bytes) -> None:
    message = parse(content)
    for attachment in message.walk_attachments():
        assert len(attachment.content) == attachment.size


def pack(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def sanitize(content: bytes) -> None:
    html = encode_message_html(MessageHtml(content.decode(errors="replace"), {}))
    html_sanitizer.sanitize(html, TaskRequest(0, "sanitize_html"), LIMITS)


PUBSUB_BODY = json.dumps(
    {"message": {"data": b64encode(b'{"emailAddress": "a@example.com", "historyId": 1}').decode()}}
).encode()
GRAPH_BODY = json.dumps(
    {"value": [{"subscriptionId": "s", "clientState": "c", "resource": "Users/u/Messages/m"}] * 3}
).encode()


def read_push(content: bytes) -> None:
    GraphPush().read(PushRequest({}, None, content))


def make_token_reader() -> tuple[Callable[[bytes], None], Sequence[bytes]]:
    """A reader of bearer tokens that knows one key, and tokens that this key signed."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    now = int(time.time())
    claims = {"iss": "https://accounts.google.com", "aud": AUDIENCE, "iat": now, "exp": now + 86400 * 30}
    claims |= {"email": ACCOUNT, "email_verified": True}
    tokens = [
        jwt.encode({**claims, **changes}, key, algorithm="RS256", headers={"kid": "k"}).encode()
        for changes in ({}, {"aud": "other"}, {"exp": 1}, {"email": "x"}, {"iss": "x"})
    ]

    def read(content: bytes) -> None:
        reader = GmailPush(sentinel.transport, "", None, AUDIENCE, ACCOUNT, None, {"k": key.public_key()})
        authorization = "Bearer " + content.decode("latin-1")
        reader.read(PushRequest({}, authorization, PUBSUB_BODY))

    return read, tokens


def make_identity_reader() -> tuple[Callable[[bytes], None], Sequence[bytes]]:
    """A reader of the ID tokens of a sign-in, and tokens and claims for it.

    It signs an input that is no token, since a mutated token seldom gets past its signature.
    """
    key, nonce, access_token = ec.generate_private_key(ec.SECP256R1()), Secret("nonce"), "access"
    configuration = _OpenIdConfiguration(ISSUER, ISSUER, ISSUER, ISSUER)
    keys = [_PublishedKey("k", "ES256", key.public_key())]
    reader = OpenIdConnect(sentinel.transport, ISSUER, CLIENT, Secret(""))
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": CLIENT, "sub": "s", "iat": now, "exp": now + 86400 * 30, "nonce": "nonce"}
    digest = urlsafe_b64encode(sha256(access_token.encode()).digest()[:16]).decode().rstrip("=")
    variants = (
        {},
        {"at_hash": digest},
        {"aud": [CLIENT, "x"], "azp": CLIENT},
        {"at_hash": "ä"},
        {"exp": 1e300},
    )
    payloads = [json.dumps(claims | changes).encode() for changes in variants]

    def sign(payload: bytes) -> str:
        return jwt.api_jws.encode(payload, key, algorithm="ES256", headers={"kid": "k"})

    def read(content: bytes) -> None:
        token = content.decode("latin-1") if content.startswith(b"ey") else sign(content)
        with suppress(LoginRejected):
            oauth.read_claims(token, audience=CLIENT)
        reader._read_claims(configuration, keys, token, access_token, nonce)

    for payload in payloads[:3]:
        read(payload)
    return read, [*payloads, *(sign(payload).encode() for payload in payloads)]


def build_targets() -> dict[str, FuzzTarget]:
    messages = list_messages()
    xml = (
        b'<?xml version="1.0"?><Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2">'
        b"<ID>1</ID><IssueDate>2024-01-02</IssueDate><a b='c'>&amp;<![CDATA[x]]><!-- y --></a></Invoice>"
    )
    text_pdf = sample_files.page_pdf()
    packed = [pack(a=text_pdf, b=messages[0]), pack(a=b"0" * 4000, b=pack(c=b"d"))]
    html = b"<p style='x:y'>a<b>c</b><img src=cid:1><table><tr><td>d<script>e</script><a href='x:'>f</a>&lt;"
    read_token, tokens = make_token_reader()
    read_identity, identities = make_identity_reader()
    addresses = (
        b'"A, B" <a@example.com>, c@example.com (d), Group: e@example.com;, =?utf-8?q?f?= <g@example.com>'
    )
    return {
        "mime": FuzzTarget(read_message, messages),
        "addresses": FuzzTarget(lambda raw: parse_addresses([raw.decode("latin-1")]), [addresses]),
        "detection": FuzzTarget(detect, [*messages[:5], xml, text_pdf, *packed, html]),
        "push": FuzzTarget(read_push, [GRAPH_BODY, PUBSUB_BODY], (PushRejected,)),
        "token": FuzzTarget(read_token, tokens, (PushRejected, PushUnverifiable)),
        # What `OpenIdConnect` turns into a rejected login.
        "identity": FuzzTarget(read_identity, identities, (jwt.PyJWTError, ValueError)),
        "xml": FuzzTarget(lambda raw: parse_einvoice(raw, name="a.xml"), [xml], in_child=True),
        "zip": FuzzTarget(lambda raw: list(unpack(raw, "a.zip", CONTAINER_DECODERS)), packed, in_child=True),
        "pdf": FuzzTarget(lambda raw: pdf.read(raw, LIMITS), [text_pdf], in_child=True),
        "html": FuzzTarget(sanitize, [html, html * 20], in_child=True),
    }
