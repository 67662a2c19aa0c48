"""What happens in a run, as a pure function of its seed: mailboxes, and actions at times.

The same seed always gives the same plan. How the processes interleave is up to the machine.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

POLICIES: Final = ("full", "documents", "metadata")
PERSON: Final = "pat.noord@example.net"  # whose mail may be purged
DEFAULT_SECONDS: Final = 20.0
MAX_JUMP_DAYS: Final = 20.0  # in all, so that sessions and the feed reach back to the beginning
_NAMES: Final = ("ada", "ben", "cleo", "dora", "emil", "fay", "gus", "hana", "ivo", "jule")
# Every kind of message but scans: reading those takes longer than everything else in a run.
MESSAGE_KINDS: Final = (
    "plain", "html", "reply", "newsletter", "attachment", "invoice", "contract-note", "forward", "charset",
    "headers", "inline-image", "malformed", "meeting", "invoice-facturx", "invoice-zip", "nested", "signed",
    "auto-reply", "bounce", "reference", "invoice-xrechnung", "invoice-forwarded",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorldSize:
    """How much runs and happens. `messages`, `disturbances`: at least and at most."""

    providers: tuple[str, ...]  # of the mailboxes
    messages: tuple[int, int]
    workers: int
    disturbances: tuple[int, int]  # beside the two that every plan has


FULL: Final = WorldSize(("gmail", "outlook", "gmail", "outlook"), (5, 30), 3, (8, 13))
SMALL: Final = WorldSize(("gmail", "outlook"), (3, 8), 2, (3, 5))  # for many runs in a short time


@dataclass(frozen=True, slots=True)
class PlannedMailbox:
    """`connected_at`: seconds after the start of the faults; 0: before them."""

    address: str
    provider: str
    policy: str
    messages: int
    days: float
    connected_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that happens at a time. `details` are all that `actions` needs to perform it."""

    at: float
    kind: str
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        details = " ".join(f"{name}={value}" for name, value in self.details.items())
        return f"{self.at:7.2f}  {self.kind:<16} {details}"


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    seconds: float
    mailboxes: tuple[PlannedMailbox, ...]
    actions: tuple[Action, ...]
    backfill_days: int
    retention: Mapping[str, int]  # settings by name
    workers: int

    def __str__(self) -> str:
        header = [f"seed {self.seed}: {len(self.actions)} actions in {self.seconds:.0f} s"]
        header += [f"retention {dict(self.retention)}"] if self.retention else []
        header += [
            f"  {each.address} ({each.provider}, {each.policy}, {each.messages} messages)"
            for each in self.mailboxes
        ]
        return "\n".join([*header, *map(str, self.actions)])


def make_plan(seed: int, seconds: float = DEFAULT_SECONDS, size: WorldSize = FULL) -> Plan:
    dice = Random(f"postroom-chaos {seed}")
    mailboxes = _make_mailboxes(dice, seed, seconds, size)
    drawing = _Drawing(dice, mailboxes, seconds, size)
    drawing.draw_activity()
    drawing.draw_disturbances()
    actions = tuple(sorted(drawing.actions, key=lambda action: action.at))
    backfill = dice.choice((60, 60, 10))
    days = dice.choice((0, 0, 15))
    retention = {f"keep_{policy}_days": days for policy in POLICIES}
    return Plan(seed, seconds, mailboxes, actions, backfill, retention if days else {}, size.workers)


@dataclass(frozen=True, slots=True)
class SeedOptions:
    """How a seed is run. `upgrade_from`: the commit of an earlier version to start with."""

    seconds: float = DEFAULT_SECONDS
    small: bool = False
    upgrade_from: str = ""

    def make_plan(self, seed: int) -> Plan:
        return make_plan(seed, self.seconds, SMALL if self.small else FULL)

    def __str__(self) -> str:
        """The options of the command, where they differ from its defaults."""
        given = [
            f"--seconds {self.seconds:g}" if self.seconds != DEFAULT_SECONDS else "",
            "--small" if self.small else "",
            f"--upgrade-from {self.upgrade_from}" if self.upgrade_from else "",
        ]
        return " ".join(option for option in given if option)


def _make_mailboxes(dice: Random, seed: int, seconds: float, size: WorldSize) -> tuple[PlannedMailbox, ...]:
    names = dice.sample(_NAMES, len(size.providers))
    return tuple(
        PlannedMailbox(
            address=f"{name}.s{seed}@example.com",
            provider=provider,
            policy=dice.choice(("full", "full", *POLICIES)),
            messages=dice.randint(*size.messages),
            days=20,
            connected_at=0.0 if number < 3 else _round(dice.uniform(0.5, seconds / 2)),
        )
        for number, (name, provider) in enumerate(zip(names, size.providers, strict=True))
    )


def name_workers(count: int) -> list[str]:
    return [f"worker {number + 1}" for number in range(count)]


def _round(value: float) -> float:
    return round(value, 2)


class _Drawing:
    """Draws the actions of one plan."""

    def __init__(
        self, dice: Random, mailboxes: tuple[PlannedMailbox, ...], seconds: float, size: WorldSize
    ) -> None:
        self.dice = dice
        self.size = size
        self.mailboxes = mailboxes
        self.seconds = seconds
        self.actions: list[Action] = []
        self._jump_days = MAX_JUMP_DAYS

    def add(self, kind: str, at: float | None = None, **details: Any) -> None:
        moment = self.dice.uniform(0.2, self.seconds - 1) if at is None else at
        self.actions.append(Action(_round(moment), kind, details))

    def draw_activity(self) -> None:
        """People use their mailboxes all the time: mostly mail that comes."""
        for _ in range(int(self.seconds * 2.5)):
            mailbox = self.dice.choice(self.mailboxes)
            kind = self.dice.choices(
                ("receive", "burst", "mark", "move", "trash", "delete", "draft", "folder"),
                (8, 1, 5, 3, 2, 2, 2, 1),
            )[0]
            self.add(kind, mailbox=mailbox.address, **self._activity_details(kind, mailbox))

    def _activity_details(self, kind: str, mailbox: PlannedMailbox) -> dict[str, Any]:
        dice, pick = self.dice, self.dice.getrandbits(30)
        if kind == "receive":
            details: dict[str, Any] = {"message": dice.choice(MESSAGE_KINDS), "seed": pick}
            return details | ({"from": PERSON} if dice.random() < 0.15 else {})
        if kind == "burst":
            return {"count": dice.randint(5, 30), "seed": pick}
        if kind == "mark":
            marks: list[dict[str, Any]] = [{"read": True}, {"read": False}, {"flag": "flagged"}]
            marks += [{"importance": "high"}]
            marks += [{"categories": ["Red category"]}] if mailbox.provider == "outlook" else []
            return {"pick": pick, "marks": dice.choice(marks)}
        if kind == "folder":
            return {"pick": pick, "change": dice.choice(("make", "make", "rename", "delete"))}
        return {"pick": pick}

    def draw_disturbances(self) -> None:
        """At least one lost process and one disturbed push; the rest as it comes."""
        self._draw_kill()
        self._draw_push_fault()
        table: list[tuple[Callable[[], None], int]] = [
            (self._draw_response_fault, 5),
            (self._draw_push_fault, 3),
            (self._draw_kill, 4),
            (self._draw_freeze, 2),
            (self._draw_database_fault, 4),
            (self._draw_disk_fault, 2),
            (self._draw_clock_fault, 3),
            (self._draw_provider_event, 4),
            (self._draw_lifecycle, 5),
            (self._draw_reader_fault, 2),
        ]
        draws = [draw for draw, _ in table]
        count = self.dice.randint(*self.size.disturbances)
        for draw in self.dice.choices(draws, [weight for _, weight in table], k=count):
            draw()

    def _draw_response_fault(self) -> None:
        dice = self.dice
        kind = dice.choice(("throttle", "error", "html", "stall", "cut", "truncated"))
        more = {
            "throttle": {"retry_after": dice.randint(0, 2)},
            "error": {"status": dice.choice((500, 502, 503, 504))},
            "stall": {"seconds": _round(dice.uniform(0.5, 3))},
        }.get(kind, {})
        where = dice.choice(
            ({}, {"provider": "gmail"}, {"provider": "outlook"}, {"mailbox": self._address()})
        )
        self._add_fault(kind, **where, **more)

    def _draw_push_fault(self) -> None:
        kind = self.dice.choice(("push_lost", "push_lost", "push_doubled", "push_late", "push_reordered"))
        more = {"seconds": _round(self.dice.uniform(1, 10))} if kind == "push_late" else {}
        self._add_fault(kind, **more)

    def _add_fault(self, fault: str, **details: Any) -> None:
        probability = _round(self.dice.choice((1.0, self.dice.uniform(0.1, 0.9))))
        self.add(
            "fault",
            fault=fault,
            probability=probability,
            **details,
            **{"for": _round(self.dice.uniform(1, 6))},
        )

    def _draw_kill(self) -> None:
        kind = self.dice.choice(("kill", "kill", "kill", "kill_workers", "restart"))
        which: dict[str, Any] = {} if kind == "kill_workers" else {"program": self._program()}
        self.add(kind, **which, down=_round(self.dice.uniform(0, 3)))

    def _draw_freeze(self) -> None:
        """Longer than a lease: another worker takes over, and the frozen one comes back."""
        self.add("freeze", program=self._program(), **{"for": _round(self.dice.uniform(3.5, 7))})

    def _program(self) -> str:
        return self.dice.choice(("web", *name_workers(self.size.workers)))

    def _draw_database_fault(self) -> None:
        kind = self.dice.choice(("database_kill", "sessions_end", "database_freeze"))
        longest = {"database_kill": 3.0, "sessions_end": 0.0, "database_freeze": 5.0}[kind]
        self.add(kind, **{"for": _round(self.dice.uniform(0, longest))} if longest else {})

    def _draw_disk_fault(self) -> None:
        kind = self.dice.choice(("disk_full", "disk_read_only"))
        self.add(kind, **{"for": _round(self.dice.uniform(1, 5))})

    def _draw_clock_fault(self) -> None:
        if self.dice.random() < 0.3:
            skew = self.dice.choice((-90, -20, 20, 90))
            self.add("clock_skew", seconds=skew, **{"for": _round(self.dice.uniform(2, 6))})
            return
        seconds = self.dice.choice((90, 1200, 7200, 26 * 3600, 3 * 86400, 8 * 86400))
        if seconds / 86400 <= self._jump_days:
            self._jump_days -= seconds / 86400
            self.add("clock_jump", seconds=seconds)

    def _draw_provider_event(self) -> None:
        dice = self.dice
        kind = dice.choice(
            (
                "expire_cursors",
                "expire_tokens",
                "lifecycle",
                "not_readable",
                "delta_repeat",
                "delta_empty_page",
            )
        )
        if kind in {"not_readable", "delta_repeat", "delta_empty_page"}:
            self._add_fault(
                kind, **{"seconds": _round(dice.uniform(0.5, 3))} if kind == "not_readable" else {}
            )
        elif kind == "lifecycle":
            mailbox = dice.choice([each for each in self.mailboxes if each.provider == "outlook"])
            event = dice.choice(("missed", "reauthorizationRequired", "subscriptionRemoved"))
            self.add(kind, mailbox=mailbox.address, event=event)
        else:
            self.add(kind, mailbox=self._address())

    def _draw_lifecycle(self) -> None:
        dice = self.dice
        kind = dice.choices(
            ("policy", "pause", "disconnect", "purge_mailbox", "revoke", "purge_person", "sync"),
            (4, 3, 2, 1, 3, 2, 2),
        )[0]
        away = {"for": _round(dice.uniform(1, 6))}
        if kind == "policy":
            self.add(kind, mailbox=self._address(), policy=dice.choice(POLICIES))
        elif kind == "purge_person":
            self.add(kind, address=PERSON)
        elif kind == "sync":
            self.add(kind, mailbox=self._address(), full=dice.random() < 0.5)
        elif kind in {"disconnect", "purge_mailbox"} and dice.random() < 0.3:
            self.add(kind, mailbox=self._address())  # for good
        else:
            self.add(kind, mailbox=self._address(), **away)

    def _draw_reader_fault(self) -> None:
        if self.dice.random() < 0.4:
            self.add("kill", program="feed follower", down=_round(self.dice.uniform(0, 3)))
        else:
            mode = self.dice.choice(("refuse", "stall", "drop"))
            self.add("receiver", mode=mode, **{"for": _round(self.dice.uniform(1, 6))})

    def _address(self) -> str:
        return self.dice.choice(self.mailboxes).address
