"""C3: sealed values open at their own place, with their own key, unchanged, and nowhere else."""

from base64 import b64encode, urlsafe_b64encode
from dataclasses import replace
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom import config
from postroom.errors import OperatorError, SettingsError
from postroom.model import SealingKey, Secret, parse_sealing_keys
from postroom.ports import SealedSecret, SecretLocation, SsmParameter
from postroom.vault import ConfiguredKeys, LocalVault, Sealer

MARK = "m4rked-t0ken"
OLD, NEW = SealingKey("old", b"o" * 32), SealingKey("new", b"n" * 32)
PLACE = SecretLocation(uuid4(), uuid4(), "grant")


def sealer(*keys):
    return Sealer(ConfiguredKeys(keys or (OLD,)))


@given(st.text(), st.text())
def test_a_sealed_secret_opens_in_the_same_context(context, value):
    assert sealer().open(context, sealer().seal(context, Secret(value))) == Secret(value)


def test_the_same_secret_is_never_sealed_to_the_same_bytes():
    sealed = {sealer().seal("x", Secret(MARK)).value for _ in range(100)}
    assert len(sealed) == 100
    assert len({value[1:13] for value in sealed}) == 100


@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(PLACE, organization=uuid4()),
        replace(PLACE, mailbox=uuid4()),
        replace(PLACE, field="access"),
        SecretLocation(PLACE.mailbox, PLACE.organization, "grant"),
    ],
)
async def test_a_value_copied_to_another_organization_mailbox_or_column_does_not_open(elsewhere):
    vault = LocalVault(sealer())
    kept = await vault.store(PLACE, Secret(MARK))
    assert await vault.fetch(PLACE, kept) == Secret(MARK)
    with pytest.raises(OperatorError, match="cannot be decrypted"):
        await vault.fetch(elsewhere, kept)


def test_a_value_changed_in_any_byte_or_cut_short_does_not_open():
    kept = sealer().seal("x", Secret(MARK))
    for place in range(len(kept.value)):
        changed = bytearray(kept.value)
        changed[place] ^= 1
        with pytest.raises(OperatorError):
            sealer().open("x", replace(kept, value=bytes(changed)))
    for length in range(len(kept.value)):
        with pytest.raises(OperatorError):
            sealer().open("x", replace(kept, value=kept.value[:length]))


def test_a_value_under_another_key_or_another_id_of_the_same_key_does_not_open():
    kept = sealer(OLD).seal("x", Secret(MARK))
    with pytest.raises(OperatorError, match="cannot be decrypted"):
        sealer(replace(NEW, id="old")).open("x", kept)
    with pytest.raises(OperatorError, match="cannot be decrypted"):
        sealer(replace(OLD, id="other")).open("x", replace(kept, key_id="other"))


def test_an_unknown_key_is_named_with_the_place_where_it_is_missing():
    kept = sealer(OLD).seal("x", Secret(MARK))
    with pytest.raises(OperatorError, match=r"the key 'old'.*POSTROOM_VAULT_KEYS"):
        sealer(NEW).open("x", kept)


def test_an_unknown_format_is_rejected_with_an_explanation():
    kept = sealer().seal("x", Secret(MARK))
    with pytest.raises(OperatorError, match="format"):
        sealer().open("x", replace(kept, value=b"\x02" + kept.value[1:]))


def test_the_first_key_seals_and_all_open():
    before = sealer(OLD).seal("x", Secret(MARK))
    after = sealer(NEW, OLD).seal("x", Secret(MARK))
    assert after.key_id == "new"
    assert sealer(NEW, OLD).open("x", before) == sealer(NEW, OLD).open("x", after) == Secret(MARK)


def test_representations_contain_no_secret():
    kept = sealer().seal("x", Secret(MARK))
    shown = f"{kept!r} {OLD!r} {sealer()!r} {LocalVault(sealer())!r}"
    assert MARK not in shown
    assert "ooo" not in shown
    assert repr(kept.value)[2:20] not in shown


async def test_a_grant_in_ssm_is_not_taken_for_one_of_the_database():
    vault = LocalVault(sealer())
    for act in (vault.fetch, vault.delete):
        with pytest.raises(OperatorError, match="POSTROOM_VAULT=ssm"):
            await act(PLACE, SsmParameter("/postroom/x"))
    await vault.delete(PLACE, SealedSecret("old", b""))


def encoded(size, character=b"k"):
    return b64encode(character * size).decode()


@pytest.mark.parametrize(
    "value, cause",
    [
        (MARK, "number 1"),
        (f"a:{MARK}!", "not base64"),
        (f"a:{encoded(31)}", "31 bytes instead of 32"),
        (f"a:{encoded(32)},b:{encoded(16)}", "number 2.*16 bytes"),
        (f"a:{encoded(32)},", "number 2"),
        (f":{encoded(32)}", "without an id"),
        (f"an id:{encoded(32)}", "without an id"),
        (f"a:{encoded(32)},a:{encoded(32, b'q')}", "same id"),
        (f"a:{encoded(32)}:{encoded(32)}", "not base64"),
    ],
)
def test_malformed_keys_are_rejected_without_being_quoted(monkeypatch, value, cause):
    monkeypatch.setenv("POSTROOM_VAULT_KEYS", value)
    with pytest.raises(
        SettingsError, match=f"POSTROOM_VAULT_KEYS: this value .*{cause}.*openssl rand"
    ) as caught:
        config.load()
    assert MARK not in str(caught.value)
    assert encoded(30)[:12] not in str(caught.value)


def test_keys_are_read_in_either_base64_with_or_without_padding():
    value = b"\xfb\xff" * 16
    plain, url = b64encode(value).decode(), urlsafe_b64encode(value).decode().rstrip("=")
    assert set(plain) - set(url) == set("+/=")
    assert parse_sealing_keys([f"a:{plain}", f" b:{url} "]) == (
        SealingKey("a", value),
        SealingKey("b", value),
    )


@pytest.mark.parametrize(
    "prefix", ["postroom", "/aws/postroom", "/SSM", "/a b", "/postroom/", "/", "/" + "x" * 65]
)
def test_a_prefix_that_aws_would_reject_is_rejected_early(monkeypatch, prefix):
    monkeypatch.setenv("POSTROOM_SSM_PREFIX", prefix)
    with pytest.raises(SettingsError, match=r"POSTROOM_SSM_PREFIX: .*/postroom/production"):
        config.load()
