"""Any owner of mail, any provider and any crashes: whatever happened, the store equals the truth."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import databases
from example_counts import examples
from flow.simulated_world import TOPIC
from postroom.flow.mail.sync.page_fetch import UNREADABLE_WAITS
from postroom.model import OrganizationId, ProviderName
from postroom_chaos.oracle.history import check_history_of
from scenarios.interrupted_steps import cancel_step, overtake_step, try_step
from scenarios.mailbox_user import MailboxUser
from scenarios.mirrored_mailbox import postroom
from simulator.driver import running

SWEEP = 1000  # seconds after which everything is looked at again
PATIENCE = 90_000  # seconds after which whatever failed alone is tried again
FAULTS = (
    {"kind": "error", "status": 500},
    {"kind": "error", "status": 503},
    {"kind": "html"},
    {"kind": "throttle", "retry_after": 1},
    {"kind": "cut"},
    {"kind": "truncated"},
    {"kind": "delta_repeat"},
    {"kind": "delta_empty_page"},
    {"kind": "cursor_expired"},
)
OPEN_FAILURES = "SELECT count(*) FROM failures WHERE mailbox_id = %s AND resolved_at IS NULL"
ACTS = ("receive", "mark", "move", "trash", "delete", "draft")
DICE = st.randoms(use_true_random=False)
MOMENTS = st.integers(1, 40)  # waits: a step has some dozens

_names = count(1)


@pytest.fixture(scope="module")
def sim():
    with running("--clock", "manual", "--quota", "off", checked=False) as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture(scope="module")
def place(sim, database_server, tmp_path_factory):
    """Where the machines run: the simulator, a database, a home."""
    url = database_server.create()
    yield sim, url, tmp_path_factory.mktemp("home")
    database_server.drop(url)


class Mirroring(RuleBasedStateMachine):
    """One mailbox, from its connection on. Each rule is one thing that happens to it."""

    def __init__(self, place, provider):
        super().__init__()
        self.sim, self.url, self.home = place
        self.provider = provider
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.seen = set()

    @initialize(messages=st.integers(0, 12), slices=st.sampled_from([0, 30]))
    def connects(self, messages, slices):
        self.runner.run(self._connect(messages, slices))
        self.person = MailboxUser(self.sim, self.box.address, seed=0)

    async def _connect(self, messages, slices):
        self.owner = await self.stack.enter_async_context(databases.session(self.url))
        cursor = await self.owner.execute(
            "INSERT INTO organizations (name) VALUES (%s) RETURNING id", [f"Machine {next(_names)}"]
        )
        [row] = await cursor.fetchall()
        self.room = await self.stack.enter_async_context(
            postroom(self.sim, self.url, self.owner, OrganizationId(row[0]), self.home)
        )
        self.box = await self.room.mailbox(self.provider, messages=messages, days=20)
        self.box.context = replace(self.box.context, slice_seconds=slices)

    @rule(acts=st.lists(st.sampled_from(ACTS), min_size=1, max_size=4), dice=DICE)
    def its_owner_acts(self, acts, dice):
        self.person.dice = dice
        for act in acts:
            getattr(self.person, act)()
            self.seen |= {each["id"] for each in self.sim.truth(self.box.address, digests=False)}

    @rule()
    def a_folder_is_made(self):
        self.person.make_folder(f"Folder {next(_names)}")

    @rule(dice=DICE)
    def a_folder_is_renamed(self, dice):
        if self.person.made:
            self.person.rename_folder(dice.choice(self.person.made), f"Folder {next(_names)}")

    @rule(dice=DICE)
    def a_folder_is_deleted(self, dice):
        if self.person.made:
            self.person.delete_folder(dice.choice(self.person.made))

    @rule(fault=st.sampled_from(FAULTS), skip=st.integers(0, 8), times=st.integers(1, 3))
    def answers_will_fail(self, fault, skip, times):
        self.sim.fault(mailbox=self.box.address, skip=skip, times=times, **fault)

    @rule(what=st.sampled_from(["expire-cursors", "expire-tokens"]))
    def something_expires(self, what):
        self.sim.post(f"mailboxes/{self.box.address}/{what}")

    @rule(dice=DICE, some=st.integers(1, 4))
    def pushes_come(self, dice, some):
        """Of some of what happened: others are lost; late and doubled ones name what is known, or gone."""
        if self.seen:
            self.runner.run(self.box.hint(*dice.choices(sorted(self.seen), k=some)))

    @rule(seconds=st.sampled_from([1, 60, SWEEP]))
    def time_passes(self, seconds):
        self.runner.run(self.room.move_clock(seconds))

    @rule()
    def a_worker_takes_a_step(self):
        self.runner.run(self._woken(try_step))

    @rule(moment=MOMENTS)
    def a_worker_ends_in_the_middle(self, moment):
        self.runner.run(self._woken(cancel_step, moment))

    @rule(moment=MOMENTS)
    def a_worker_is_overtaken(self, moment):
        self.runner.run(self._woken(overtake_step, moment))

    async def _woken(self, step, *given):
        await self.box.wake()
        await step(self.box, *given)

    @rule()
    def all_settles(self):
        self.runner.run(self._settle())

    async def _settle(self):
        self.sim.delete("faults")
        await self.room.move_clock(SWEEP)
        await self.box.sync()
        for _ in UNREADABLE_WAITS:
            if await self.box.one(OPEN_FAILURES, self.box.mailbox):
                await self.room.move_clock(PATIENCE)
                await self.box.sync()
        await self.box.check()
        assert check_history_of(self.url) == []

    def teardown(self):
        try:
            if hasattr(self, "box"):
                self.runner.run(self._settle())
        finally:
            self.runner.run(self._leave())
            self.runner.close()

    async def _leave(self):
        """Nothing of this mailbox is left to do for the next machine."""
        if hasattr(self, "owner"):
            await self.owner.execute("DELETE FROM work")
        await self.stack.aclose()


def _play(place, provider, **how):
    run_state_machine_as_test(
        lambda: Mirroring(place, provider),
        settings=settings(deadline=None, suppress_health_check=list(HealthCheck), **how),
    )


@pytest.mark.examples
@pytest.mark.parametrize("provider", list(ProviderName))
def test_whatever_happens_the_store_equals_the_truth(place, provider):
    _play(place, provider, max_examples=examples(30), stateful_step_count=8, derandomize=True, database=None)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("provider", list(ProviderName))
def test_whatever_happens_for_long_the_store_equals_the_truth(place, provider):
    _play(place, provider, max_examples=1500, stateful_step_count=30, print_blob=True)
