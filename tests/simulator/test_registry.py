"""The registry: mailboxes of a million messages, unique addresses, applications, reproducible ids."""

import json
import subprocess
import sys

import pytest

from mailsim.clock import Clock
from mailsim.errors import AlreadyExists, InvalidRequest, NotFound
from mailsim.registry import Registry
from mailsim.state_index import BLOCK
from simulator.driver import environment

MILLION = """
import json, re, sys, time
from pathlib import Path
from mailsim.clock import Clock
from mailsim.registry import Registry

def resident_kb():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

registry = Registry(5, Clock(manual=True))
kinds = ("plain", "html", "reply", "newsletter")
small = registry.create_mailbox("gmail", "warm@example.com", messages=500, kinds=kinds)
trees = [small.tree(n) for n in range(500)]
before, began = resident_kb(), time.process_time()
box = registry.create_mailbox(sys.argv[1], "huge@example.com", messages=1_000_000, days=365, kinds=kinds)
cpu, created = time.process_time() - began, resident_kb()
spam = "SPAM" if sys.argv[1] == "gmail" else "junkemail"
box.deliver(b"Subject: x\\r\\n\\r\\n")
box.move(7, spam)
counted = box.states.count(box.in_folder(spam))
paged = sum(1 for _ in box.states.newest(box.in_folder(spam)))
deep = next(box.states.newest(skip=900_000))
for n in range(0, 1_000_000, 200):
    box.tree(n)
print(json.dumps({
    "cpu": cpu, "created_kb": created - before, "used_kb": resident_kb() - before,
    "total": box.total, "counted": counted, "paged": paged, "deep": deep,
}))
"""


@pytest.mark.parametrize("provider", ["gmail", "outlook"])
def test_a_mailbox_of_a_million_messages_is_created_quickly_and_is_small(provider):
    ended = subprocess.run(
        [sys.executable, "-c", MILLION, provider],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=environment(),
    )
    seen = json.loads(ended.stdout)
    assert 1_000 < seen["created_kb"] < 60_000
    assert seen["used_kb"] < 200_000
    assert seen["total"] == 1_000_001
    assert seen["counted"] == seen["paged"] > 10_000
    assert seen["deep"] == 100_000


def test_pages_and_counts_agree_across_blocks():
    registry = Registry(5, Clock(manual=True))
    mailbox = registry.create_mailbox("gmail", "a@example.com", messages=3 * BLOCK + 17)
    states = mailbox.states
    for number in range(0, BLOCK * 2, 3):
        mailbox.delete(number)
    spam = mailbox.in_folder("SPAM")
    expected = [n for n in range(len(mailbox)) if (state := mailbox.state(n)) and "SPAM" in state.folder_keys]
    assert list(states.oldest(spam)) == expected
    assert list(states.newest(spam)) == expected[::-1]
    assert states.count(spam) == len(expected)
    for skip in (0, 1, 50, len(expected) - 1, len(expected), len(expected) + 9):
        assert list(states.newest(spam, skip=skip)) == expected[::-1][skip:]
    for below in (0, 1, BLOCK, BLOCK + 1, 3 * BLOCK):
        kept = [n for n in expected if n < below]
        assert list(states.newest(spam, below=below)) == kept[::-1]
        assert list(states.newest(spam, below=below, skip=3)) == kept[::-1][3:]
    assert list(states.oldest(spam, start=BLOCK + 5)) == [n for n in expected if n >= BLOCK + 5]


def test_addresses_are_unique_across_case_and_provider():
    registry = Registry(5, Clock(manual=True))
    made = registry.create_mailbox("gmail", "Ada@example.com")
    assert registry.get_mailbox("ADA@EXAMPLE.COM") is made
    assert registry.find_mailbox("ada@example.com", "outlook") is None
    with pytest.raises(AlreadyExists):
        registry.create_mailbox("outlook", "ada@example.com")
    registry.close_mailbox("ada@example.com")
    with pytest.raises(NotFound):
        registry.get_mailbox("ada@example.com")


@pytest.mark.parametrize(
    "wrong",
    [
        {"address": "nobody"},
        {"address": "two@@example.com"},
        {"address": "a b@example.com"},
        {"address": "a@example.com\n"},
        {"messages": -1},
        {"messages": 10**9},
        {"days": 0},
        {"days": float("nan")},
        {"kinds": ("love letter",)},
    ],
)
def test_an_invalid_mailbox_request_is_refused(wrong):
    registry = Registry(5, Clock(manual=True))
    with pytest.raises(InvalidRequest):
        registry.create_mailbox("gmail", **{"address": "a@example.com", **wrong})
    assert not registry.mailboxes


def test_ids_depend_only_on_the_seed():
    first, second, other = (Registry(seed, Clock(manual=True)) for seed in (1, 1, 2))
    assert first.applications == second.applications
    assert set(first.applications).isdisjoint(other.applications)
    assert first.tenant_id("Example.com") == second.tenant_id("example.com") != other.tenant_id("example.com")
