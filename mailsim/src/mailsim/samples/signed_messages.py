"""Signed mail: S/MIME and OpenPGP. The signatures verify; the key has a fixed seed and protects nothing."""

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
from mailsim.samples.mime_parts import EncodedPart, attachment, base64_lines, boundary, letter, multipart
from mailsim.samples.seeded_random import make_noise

_EXPONENT = 65537


def signed(order: MessageSpec) -> bytes:
    content = personal_messages.text_part(order, personal_messages.wanted(order))
    covered = content.head.encode("ascii") + b"\r\n" + content.body
    if order.variant == "pgp":
        kind = '; micalg=pgp-sha256; protocol="application/pgp-signature"'
        head = 'Content-Type: application/pgp-signature; name="signature.asc"\r\n'
        signature = EncodedPart(head, openpgp_signature(covered, int(order.date.timestamp())))
    else:
        kind = '; micalg=sha-256; protocol="application/pkcs7-signature"'
        signature = attachment("smime.p7s", "application/pkcs7-signature", smime_signature(covered))
    return letter(order, multipart("signed", (content, signature), boundary(order.seed), kind))


def smime_signature(covered: bytes) -> bytes:
    # No attributes: a signing time would be the clock's.
    options = [
        pkcs7.PKCS7Options.DetachedSignature, pkcs7.PKCS7Options.Binary, pkcs7.PKCS7Options.NoAttributes,
    ]  # fmt: skip
    builder = pkcs7.PKCS7SignatureBuilder().set_data(covered)
    builder = builder.add_signer(_certificate(), _key(), hashes.SHA256())
    return builder.sign(serialization.Encoding.DER, options)


@functools.cache
def _certificate() -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mail signer"),
                      x509.NameAttribute(x509.NameOID.EMAIL_ADDRESS, "signer@example.org")])  # fmt: skip
    builder = x509.CertificateBuilder(subject_name=name, issuer_name=name, public_key=_key().public_key())
    builder = builder.serial_number(1).not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
    builder = builder.not_valid_after(datetime(2040, 1, 1, tzinfo=UTC))
    return builder.sign(_key(), hashes.SHA256())


def openpgp_signature(covered: bytes, moment: int) -> bytes:
    """A version 4 signature of a binary document by RSA (RFC 9580), in ASCII armour."""
    fingerprint = hashlib.sha1(_public_packet(), usedforsecurity=False).digest()
    hashed = _subpacket(2, struct.pack(">I", moment)) + _subpacket(33, b"\x04" + fingerprint)
    trailer = b"\x04\x00\x01\x08" + struct.pack(">H", len(hashed)) + hashed
    digest = hashlib.sha256(covered + trailer + b"\x04\xff" + struct.pack(">I", len(trailer))).digest()
    unhashed = _subpacket(16, fingerprint[-8:])
    packet = trailer + struct.pack(">H", len(unhashed)) + unhashed + digest[:2] + _integer(_rsa(digest))
    return _armoured(b"\xc2" + _length(len(packet)) + packet)


def openpgp_public_key() -> bytes:
    """The packet that verifies these signatures."""
    body = _public_packet()[3:]
    return _armoured(b"\xc6" + _length(len(body)) + body, "PUBLIC KEY BLOCK")


def _public_packet() -> bytes:
    body = (
        b"\x04"
        + struct.pack(">I", 1_577_836_800)
        + b"\x01"
        + _integer(_key().public_key().public_numbers().n)
        + _integer(_EXPONENT)
    )
    return b"\x99" + struct.pack(">H", len(body)) + body


def _rsa(digest: bytes) -> int:
    signature = _key().sign(digest, padding.PKCS1v15(), utils.Prehashed(hashes.SHA256()))
    return int.from_bytes(signature, "big")


def _integer(value: int) -> bytes:
    return struct.pack(">H", value.bit_length()) + value.to_bytes((value.bit_length() + 7) // 8, "big")


def _length(size: int) -> bytes:
    return bytes((size,)) if size < 192 else bytes((((size - 192) >> 8) + 192, (size - 192) & 0xFF))


def _subpacket(kind: int, data: bytes) -> bytes:
    return _length(len(data) + 1) + bytes((kind,)) + data


def _armoured(packet: bytes, title: str = "SIGNATURE") -> bytes:
    checksum = 0xB704CE
    for byte in packet:
        checksum ^= byte << 16
        for _ in range(8):
            checksum = (checksum << 1) ^ (0x1864CFB if checksum & 0x800000 else 0)
    mark = base64_lines(checksum.to_bytes(3, "big"))
    return b"-----BEGIN PGP %b-----\r\n\r\n%b=%b-----END PGP %b-----\r\n" % (
        title.encode(), base64_lines(packet), mark, title.encode(),
    )  # fmt: skip


@functools.cache
def _key() -> rsa.RSAPrivateKey:
    """A 2048-bit key that is the same in every process."""
    first, second = _prime(1), _prime(2)
    modulus, order = first * second, (first - 1) * (second - 1)
    secret = pow(_EXPONENT, -1, order)
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


def _prime(seed: int) -> int:
    """The first probable prime after a number of 1024 bits made from the seed."""
    candidate = int.from_bytes(make_noise(seed, 128), "big") | (3 << 1022) | 1
    while any(candidate % small == 0 for small in range(3, 2000, 2)) or any(
        pow(base, candidate - 1, candidate) != 1 for base in (2, 3, 5, 7)
    ):
        candidate += 2
    return candidate
