"""A plan is a pure function of its seed."""

from collections import Counter

import pytest

from postroom_chaos.actions import PERFORM
from postroom_chaos.mailbox_use import USES
from postroom_chaos.plan import MAX_JUMP_DAYS, make_plan

SEEDS = range(1, 301)


def test_the_same_seed_gives_the_same_plan():
    assert make_plan(7) == make_plan(7)
    assert str(make_plan(7)) == str(make_plan(7))
    assert make_plan(7) != make_plan(8)


def test_every_kind_of_action_is_planned_and_can_be_performed():
    kinds = Counter(action.kind for seed in SEEDS for action in make_plan(seed).actions)
    assert set(kinds) == set(PERFORM) | USES


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_plan_kills_a_process_and_disturbs_pushes(seed):
    plan = make_plan(seed)
    assert {"kill", "kill_workers", "restart"} & {action.kind for action in plan.actions}
    faults = [action.details["fault"] for action in plan.actions if action.kind == "fault"]
    assert any(fault.startswith("push_") for fault in faults)


def test_actions_are_in_order_and_clocks_move_within_the_limit():
    for seed in SEEDS:
        actions = make_plan(seed).actions
        assert [action.at for action in actions] == sorted(action.at for action in actions)
        jumped = sum(action.details["seconds"] for action in actions if action.kind == "clock_jump")
        assert jumped <= MAX_JUMP_DAYS * 86400
