"""The same order gives the same bytes in any process, and heavy libraries wait until they are needed."""

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
from mailsim import letters
for kind in letters.kinds():
    variant = letters.variants(kind)[0]
    message = letters.write(letters.Order(seed=77, kind=kind, variant=variant, size=9000))
    print(kind, hashlib.sha256(message).hexdigest())
"""
HOT = """
import sys
from datetime import UTC, datetime
from mailsim import letters
for number in range(300):
    mix = {"plain": 3, "html": 2, "reply": 3, "sent": 1, "newsletter": 1}
    day = datetime(2024, 5, 1, tzinfo=UTC)
    letters.write(letters.order_for(seed=1, address="a@example.org", number=number, date=day, mix=mix))
print(*sorted({"reportlab", "PIL", "pypdf", "cryptography", "email.message"} & set(sys.modules)))
"""


def output_of(program: str, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": "Pacific/Auckland"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_another_process_in_another_time_zone_writes_the_same_bytes():
    expected = {
        kind: hashlib.sha256(
            samples.write_message(samples.MessageSpec(seed=77, kind=kind, variant=variant, size=9000))
        ).hexdigest()
        for kind, variant in ONE_OF_EACH
    }
    found = dict(line.split() for line in output_of(DIGEST_OF_EACH, "12345").splitlines())
    assert found == expected


def test_everyday_mail_loads_no_heavy_library():
    assert output_of(HOT, "0").split() == []


@pytest.mark.parametrize("kind,variant", ONE_OF_EACH)
def test_two_seeds_give_two_letters(kind: str, variant: str):
    first, second = (
        samples.write_message(samples.MessageSpec(seed=seed, kind=kind, variant=variant, size=6000))
        for seed in (1, 2)
    )
    assert first != second


def test_an_order_is_complete_from_its_seed_alone():
    order = samples.MessageSpec(seed=9)
    assert order == samples.MessageSpec(seed=9)
    assert order.sender[1].endswith(".example")
    assert order.date.tzinfo is UTC
    assert order.message_id.startswith("<")
    assert order.title


def test_an_order_for_a_mailbox_depends_on_seed_address_and_number():
    day = datetime(2024, 5, 1, tzinfo=UTC)

    def order(seed: int, address: str, number: int) -> samples.MessageSpec:
        return samples.plan_message(seed=seed, address=address, number=number, date=day)

    assert order(1, "a@example.org", 5) == order(1, "a@example.org", 5)
    others = {order(2, "a@example.org", 5), order(1, "b@example.org", 5), order(1, "a@example.org", 6)}
    assert order(1, "a@example.org", 5) not in others
    assert len({order(1, "a@example.org", number).message_id for number in range(2000)}) == 2000
