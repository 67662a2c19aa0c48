"""Python's email package can parse every message kind and variant."""

import email
import email.policy
from email.message import EmailMessage

import pytest

from mailsim import samples

SHAPES = [(kind, variant) for kind in samples.list_kinds() for variant in samples.list_variants(kind)]
# What every mail program understands and the referee's strict header registry notes as a defect.
REFEREE_DISAGREES = {
    ("headers", "utf8-address"),  # SMTPUTF8, RFC 6532
    ("headers", "rfc2231-both"),  # a plain name for old readers beside the extended one
    ("headers", "encoded-word-filename"),  # forbidden by RFC 2047, sent by half the world
}


def parsed(message: bytes) -> EmailMessage:
    return email.message_from_bytes(message, policy=email.policy.default)


def defects(message: EmailMessage) -> list[object]:
    found: list[object] = []
    for part in message.walk():
        found += part.defects
        found += [defect for value in part.values() for defect in getattr(value, "defects", ())]
        if not part.is_multipart():
            part.get_content()
    return found


@pytest.mark.parametrize("kind,variant", SHAPES)
def test_a_message_has_the_addresses_and_id_of_its_spec(kind: str, variant: str):
    spec = samples.MessageSpec(seed=0, kind=kind, variant=variant)
    message = email.message_from_bytes(samples.write_message(spec))
    if kind in {"malformed", "headers"}:
        assert len(samples.write_message(spec)) > 200
        return
    assert message["Message-ID"] == spec.message_id
    assert spec.sender[1] in message["From"]
    assert spec.to[0][1] in message["To"]


@pytest.mark.parametrize("kind,variant", [shape for shape in SHAPES if shape[0] != "malformed"])
def test_a_valid_message_has_no_defects_and_only_crlf(kind: str, variant: str):
    for seed in range(1 if "scan" in kind else 3):
        message = samples.write_message(samples.MessageSpec(seed=seed, kind=kind, variant=variant, size=9000))
        assert b"\n" not in message.replace(b"\r\n", b"")
        assert b"\r" not in message.replace(b"\r\n", b"")
        if (kind, variant) not in REFEREE_DISAGREES:
            assert defects(parsed(message)) == []


@pytest.mark.parametrize("variant", samples.list_variants("malformed"))
def test_a_malformed_message_has_defects_but_can_be_walked(variant: str):
    message = samples.write_message(samples.MessageSpec(seed=5, kind="malformed", variant=variant))
    parts = list(email.message_from_bytes(message).walk())
    for part in parts:
        part.get_payload(decode=True)
    assert parts


def test_an_unknown_kind_is_rejected_with_the_known_kinds():
    with pytest.raises(ValueError, match="unknown message kind 'telegram'; known kinds: plain"):
        samples.MessageSpec(kind="telegram")


def test_an_unknown_variant_is_rejected_with_the_known_variants():
    with pytest.raises(ValueError, match="no variant 'fax'"):
        samples.MessageSpec(kind="forward", variant="fax")


def test_only_sent_messages_have_bcc():
    hidden = (("", "hidden@example.com"),)
    assert b"hidden@example.com" in samples.write_message(
        samples.MessageSpec(kind="sent", bcc=hidden, to=(("", "a@example.org"),))
    )
    assert b"hidden@example.com" not in samples.write_message(
        samples.MessageSpec(kind="html", bcc=hidden, to=(("", "a@example.org"),))
    )
