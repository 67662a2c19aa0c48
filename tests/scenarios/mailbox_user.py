"""A person who uses a mailbox while it is mirrored: a seed reproduces everything they do."""

import random
from dataclasses import dataclass, field

from simulator.driver import Simulation

_GMAIL_PLACES = ("INBOX", "SPAM", "TRASH")
_NO_PLACES = ("msgfolderroot", "recoverableitemsdeletions")  # not visible to people
_MAIL = b"From: Ann <ann@example.org>\r\nTo: bob@example.com\r\nSubject: a draft\r\n\r\nText %d\r\n"


@dataclass
class MailboxUser:
    sim: Simulation
    address: str
    seed: int
    dice: random.Random = field(init=False)
    provider: str = field(init=False)
    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.provider = self.sim.get(f"mailboxes/{self.address}")["mailbox"]["provider"]

    def act(self, times: int = 1) -> None:
        """So many things, each chosen by chance."""
        for _ in range(times):
            action = self.dice.choice(
                (
                    self.receive,
                    self.receive,
                    self.mark,
                    self.mark,
                    self.move,
                    self.trash,
                    self.delete,
                    self.draft,
                )
            )
            action()

    def receive(self) -> None:
        self.sim.deliver(self.address, seed=self.dice.getrandbits(30))

    def mark(self) -> None:
        if number := self._any():
            marks = [{"read": True}, {"read": False}, {"flag": "flagged"}, {"importance": "high"}]
            if self.provider == "outlook":
                marks.append({"categories": ["Red category"]})
            self.sim.act(self.address, number, "mark", **self.dice.choice(marks))

    def move(self) -> None:
        if number := self._any():
            self.sim.act(self.address, number, "move", folder=self.dice.choice(self.places()))

    def trash(self) -> None:
        if number := self._any():
            self.sim.act(self.address, number, "trash")

    def delete(self) -> None:
        if number := self._any():
            self.sim.delete(f"mailboxes/{self.address}/messages/{number}")

    def draft(self) -> None:
        path = f"mailboxes/{self.address}/drafts"
        headers = {"content-type": "message/rfc822"}
        answer = self.sim.control.post(path, content=_MAIL % self.dice.getrandbits(20), headers=headers)
        [name] = answer.json()["messages"]
        if self.dice.random() < 0.5:
            path = f"mailboxes/{self.address}/messages/{name['number']}"
            answer = self.sim.control.put(path, content=_MAIL % self.dice.getrandbits(20), headers=headers)
            [name] = answer.json()["messages"]
        if self.dice.random() < 0.3:
            self.sim.act(self.address, name["number"], "send")

    def make_folder(self, name: str) -> str:
        made = self.sim.post(f"mailboxes/{self.address}/folders", name=name)
        self.made.append(made["key"])
        return made["key"]

    def rename_folder(self, key: str, name: str) -> None:
        answer = self.sim.control.patch(f"mailboxes/{self.address}/folders/{key}", json={"name": name})
        assert answer.is_success, answer.text

    def move_folder(self, key: str, name: str, *, under: str) -> None:
        """Labels do not nest: one that is called `Above/Below` counts as lying in `Above`."""
        if self.provider == "gmail":
            shown = self.sim.get(f"mailboxes/{self.address}")["folders"]
            [above] = [each["name"] for each in shown if each["key"] == under]
            self.rename_folder(key, f"{above}/{name}")
            return
        answer = self.sim.control.patch(f"mailboxes/{self.address}/folders/{key}", json={"parent": under})
        assert answer.is_success, answer.text

    def delete_folder(self, key: str) -> None:
        self.sim.delete(f"mailboxes/{self.address}/folders/{key}")
        self.made.remove(key)

    def places(self) -> list[str]:
        if self.provider == "gmail":
            return [*_GMAIL_PLACES, *self.made]
        shown = self.sim.get(f"mailboxes/{self.address}")["folders"]
        return [each["key"] for each in shown if not each["query"] and each["key"] not in _NO_PLACES]

    def _any(self) -> int | None:
        there = self.sim.truth(self.address, digests=False)
        return self.dice.choice(there)["number"] if there else None
