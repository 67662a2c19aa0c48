"""The same spec gives the same bytes in any process; heavy libraries are imported only when needed."""

import hashlib
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from mailsim import samples

ONE_OF_EACH = [(kind, samples.list_variants(kind)[0]) for kind in samples.list_kinds()]
DIGEST_OF_EACH = """
import hashlib
from mailsim import samples
for kind in samples.list_kinds():
    variant = samples.list_variants(kind)[0]
    message = samples.write_message(samples.MessageSpec(seed=77, kind=kind, variant=variant, size=9000))
    print(kind, hashlib.sha256(message).hexdigest())
"""
HOT = """
import sys
from datetime import UTC, datetime
from mailsim import samples
for number in range(300):
    mix = {"plain": 3, "html": 2, "reply": 3, "sent": 1, "newsletter": 1}
    day = datetime(2024, 5, 1, tzinfo=UTC)
    spec = samples.plan_message(seed=1, address="a@example.org", number=number, date=day, mix=mix)
    samples.write_message(spec)
print(*sorted({"reportlab", "PIL", "pypdf", "cryptography", "email.message"} & set(sys.modules)))
"""


def output_of(program: str, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": "Pacific/Auckland"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_another_process_in_another_time_zone_generates_the_same_bytes():
    expected = {
        kind: hashlib.sha256(
            samples.write_message(samples.MessageSpec(seed=77, kind=kind, variant=variant, size=9000))
        ).hexdigest()
        for kind, variant in ONE_OF_EACH
    }
    found = dict(line.split() for line in output_of(DIGEST_OF_EACH, "12345").splitlines())
    assert found == expected


def test_ordinary_messages_import_no_heavy_library():
    assert output_of(HOT, "0").split() == []


@pytest.mark.parametrize("kind,variant", ONE_OF_EACH)
def test_two_seeds_give_different_messages(kind: str, variant: str):
    first, second = (
        samples.write_message(samples.MessageSpec(seed=seed, kind=kind, variant=variant, size=6000))
        for seed in (1, 2)
    )
    assert first != second


def test_a_seed_alone_gives_a_complete_spec():
    spec = samples.MessageSpec(seed=9)
    assert spec == samples.MessageSpec(seed=9)
    assert spec.sender[1].endswith(".example")
    assert spec.date.tzinfo is UTC
    assert spec.message_id.startswith("<")
    assert spec.title


def test_the_spec_of_a_mailbox_message_depends_on_seed_address_and_number():
    day = datetime(2024, 5, 1, tzinfo=UTC)

    def make_spec(seed: int, address: str, number: int) -> samples.MessageSpec:
        return samples.plan_message(seed=seed, address=address, number=number, date=day)

    assert make_spec(1, "a@example.org", 5) == make_spec(1, "a@example.org", 5)
    others = {
        make_spec(2, "a@example.org", 5),
        make_spec(1, "b@example.org", 5),
        make_spec(1, "a@example.org", 6),
    }
    assert make_spec(1, "a@example.org", 5) not in others
    assert len({make_spec(1, "a@example.org", number).message_id for number in range(2000)}) == 2000
