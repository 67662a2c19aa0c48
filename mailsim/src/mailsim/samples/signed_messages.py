"""Writer of messages with valid S/MIME and OpenPGP signatures, and the signing itself.

The key has a fixed seed and is not secret.
"""

import functools
import hashlib
import struct
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa, utils
from cryptography.hazmat.primitives.serialization import pkcs7

from mailsim.samples import personal_messages
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import (
    EncodedPart,
    build_message,
    encode_base64_lines,
    make_attachment,
    make_boundary,
    make_multipart,
)
from mailsim.samples.seeded_random import make_noise

_EXPONENT = 65537


def write_signed(spec: MessageSpec) -> bytes:
    content = personal_messages.make_text_part(spec, personal_messages.choose_body_size(spec))
    signed_bytes = content.head.encode("ascii") + b"\r\n" + content.body
    if spec.variant == "pgp":
        kind = '; micalg=pgp-sha256; protocol="application/pgp-signature"'
        head = 'Content-Type: application/pgp-signature; name="signature.asc"\r\n'
        signature = EncodedPart(head, sign_openpgp(signed_bytes, int(spec.date.timestamp())))
    else:
        kind = '; micalg=sha-256; protocol="application/pkcs7-signature"'
        signature = make_attachment("smime.p7s", "application/pkcs7-signature", sign_smime(signed_bytes))
    return build_message(spec, make_multipart("signed", (content, signature), make_boundary(spec.seed), kind))


def sign_smime(signed_bytes: bytes) -> bytes:
    # No attributes: a signing time would make the bytes depend on the clock.
    options = [
        pkcs7.PKCS7Options.DetachedSignature, pkcs7.PKCS7Options.Binary, pkcs7.PKCS7Options.NoAttributes,
    ]  # fmt: skip
    builder = pkcs7.PKCS7SignatureBuilder().set_data(signed_bytes)
    builder = builder.add_signer(make_certificate(), make_key(), hashes.SHA256())
    return builder.sign(serialization.Encoding.DER, options)


@functools.cache
def make_certificate() -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mail signer"),
                      x509.NameAttribute(x509.NameOID.EMAIL_ADDRESS, "signer@example.org")])  # fmt: skip
    builder = x509.CertificateBuilder(subject_name=name, issuer_name=name, public_key=make_key().public_key())
    builder = builder.serial_number(1).not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
    builder = builder.not_valid_after(datetime(2040, 1, 1, tzinfo=UTC))
    return builder.sign(make_key(), hashes.SHA256())


def sign_openpgp(signed_bytes: bytes, moment: int) -> bytes:
    """Sign bytes as a binary document: RSA, version 4 (RFC 9580), ASCII armor."""
    fingerprint = hashlib.sha1(_encode_public_key(), usedforsecurity=False).digest()
    hashed = _encode_subpacket(2, struct.pack(">I", moment)) + _encode_subpacket(33, b"\x04" + fingerprint)
    trailer = b"\x04\x00\x01\x08" + struct.pack(">H", len(hashed)) + hashed
    digest = hashlib.sha256(signed_bytes + trailer + b"\x04\xff" + struct.pack(">I", len(trailer))).digest()
    unhashed = _encode_subpacket(16, fingerprint[-8:])
    packet = (
        trailer
        + struct.pack(">H", len(unhashed))
        + unhashed
        + digest[:2]
        + _encode_integer(_sign_digest(digest))
    )
    return _armor(b"\xc2" + _encode_length(len(packet)) + packet)


def export_openpgp_key() -> bytes:
    """Export the public key that verifies these signatures."""
    body = _encode_public_key()[3:]
    return _armor(b"\xc6" + _encode_length(len(body)) + body, "PUBLIC KEY BLOCK")


def _encode_public_key() -> bytes:
    body = (
        b"\x04"
        + struct.pack(">I", 1_577_836_800)
        + b"\x01"
        + _encode_integer(make_key().public_key().public_numbers().n)
        + _encode_integer(_EXPONENT)
    )
    return b"\x99" + struct.pack(">H", len(body)) + body


def _sign_digest(digest: bytes) -> int:
    signature = make_key().sign(digest, padding.PKCS1v15(), utils.Prehashed(hashes.SHA256()))
    return int.from_bytes(signature, "big")


def _encode_integer(value: int) -> bytes:
    return struct.pack(">H", value.bit_length()) + value.to_bytes((value.bit_length() + 7) // 8, "big")


def _encode_length(size: int) -> bytes:
    return bytes((size,)) if size < 192 else bytes((((size - 192) >> 8) + 192, (size - 192) & 0xFF))


def _encode_subpacket(kind: int, data: bytes) -> bytes:
    return _encode_length(len(data) + 1) + bytes((kind,)) + data


def _armor(packet: bytes, title: str = "SIGNATURE") -> bytes:
    checksum = 0xB704CE
    for byte in packet:
        checksum ^= byte << 16
        for _ in range(8):
            checksum = (checksum << 1) ^ (0x1864CFB if checksum & 0x800000 else 0)
    mark = encode_base64_lines(checksum.to_bytes(3, "big"))
    return b"-----BEGIN PGP %b-----\r\n\r\n%b=%b-----END PGP %b-----\r\n" % (
        title.encode(), encode_base64_lines(packet), mark, title.encode(),
    )  # fmt: skip


@functools.cache
def make_key() -> rsa.RSAPrivateKey:
    """Make the 2048-bit key, which is the same in every process."""
    first, second = _find_prime(1), _find_prime(2)
    modulus, totient = first * second, (first - 1) * (second - 1)
    secret = pow(_EXPONENT, -1, totient)
    numbers = rsa.RSAPrivateNumbers(
        p=first,
        q=second,
        d=secret,
        dmp1=secret % (first - 1),
        dmq1=secret % (second - 1),
        iqmp=pow(second, -1, first),
        public_numbers=rsa.RSAPublicNumbers(_EXPONENT, modulus),
    )
    return numbers.private_key()


def _find_prime(seed: int) -> int:
    """Find the first probable prime after a 1024-bit number derived from the seed."""
    candidate = int.from_bytes(make_noise(seed, 128), "big") | (3 << 1022) | 1
    while any(candidate % small == 0 for small in range(3, 2000, 2)) or any(
        pow(base, candidate - 1, candidate) != 1 for base in (2, 3, 5, 7)
    ):
        candidate += 2
    return candidate
