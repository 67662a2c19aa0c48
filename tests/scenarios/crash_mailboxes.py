"""Crash scenarios of mailboxes: connect, sync, subscriptions, disconnect, policy, purge, keys."""

import json
import os
from typing import ClassVar

import httpx2

from mailsim import samples
from postroom.model import WorkKind
from providers.consent import consent
from scenarios.crash_world import CommandScenario, CrashScenario, RequestScenario
from scenarios.document_postroom import TODAY
from scenarios.mirrored_mailbox import MirroredMailbox
from web.sign_in_support import create_session

HOUR = 3600
INVOICE = samples.MessageSpec(seed=1, kind="invoice", variant="letterhead", language="en", date=TODAY)


class SubscribedScenario(CrashScenario):
    """Whatever happens, there is one subscription, and its row knows it."""

    box: MirroredMailbox

    async def check(self) -> None:
        [live] = await self.world.rows(
            """
            SELECT provider_subscription_id FROM subscriptions
            WHERE status = 'active' AND replaced_at IS NULL
            """
        )
        [found] = self.world.sim.get(f"mailboxes/{self.box.address}")["subscriptions"]
        if self.provider == "outlook":
            assert (found["id"],) == live
        assert await self.world.rows("SELECT health FROM mailboxes") == [("active",)]


class Mail(SubscribedScenario):
    """A mailbox is subscribed to and synced for the first time, with a token that has to be refreshed."""

    async def prepare(self) -> None:
        room = self.world.room
        self.box = await room.mailbox(self.provider, messages=2)
        self.world.sim.deliver(self.box.address, samples.write_message(INVOICE))
        await room.move_clock(2 * HOUR)  # longer than any access token is valid

    async def check(self) -> None:
        await super().check()
        assert await self.box.check() == 3
        entries = await self.world.count_entries()
        assert entries["MESSAGE_INGESTED"] == 3
        assert entries.get("SUBSCRIPTION_CREATED", 0) + entries.get("SUBSCRIPTION_ADOPTED", 0) == 1
        await self.world.assert_no_orphans()


class Renewal(SubscribedScenario):
    """A subscription is about to expire."""

    async def prepare(self) -> None:
        self.box = await self.world.room.mailbox(self.provider)
        await self.world.perform(WorkKind.SUBSCRIBE, WorkKind.SYNC)
        await self.world.room.move_clock(6 * 24 * HOUR)

    async def check(self) -> None:
        await super().check()
        assert (await self.world.count_entries())["SUBSCRIPTION_RENEWED"] == 1
        lasts = "SELECT expires_at > postroom_now() + interval '5 days' FROM subscriptions"
        assert await self.world.rows(lasts) == [(True,)]


class MovedUrl(SubscribedScenario):
    """Postroom has a new public URL, so that its subscription has to be replaced."""

    async def prepare(self) -> None:
        self.box = await self.world.room.mailbox(self.provider)
        before = self.world.base.replace("127.0.0.1", "localhost")
        await self.world.perform(WorkKind.SUBSCRIBE, WorkKind.SYNC, public_url=before)
        await self.world.enqueue(WorkKind.SUBSCRIBE, self.box.mailbox)

    async def check(self) -> None:
        await super().check()
        assert (await self.world.count_entries())["SUBSCRIPTION_RECREATED"] == 1


class Connect(RequestScenario):
    """An owner connects a mailbox in a browser, and tries again when the page breaks off."""

    uses_aws = True
    changed: ClassVar = {"vault": "ssm"}

    async def prepare(self) -> None:
        self.address = self.world.room.world.person(self.provider)
        self.session = await create_session(self.world.database, self.world.organization)

    async def request(self, url: str) -> None:
        cookies = {"postroom_session": self.session}
        async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=60, cookies=cookies) as browser:
            begun = await browser.get(f"/oauth/{self.provider}/authorize")
            answer = await consent(begun.headers["location"], self.address)
            done = await browser.get(f"/oauth/{self.provider}/callback", params=answer)
            assert done.status_code == 303, done.text

    async def check(self) -> None:
        assert await self.world.rows("SELECT address, health FROM mailboxes") == [(self.address, "active")]
        assert (await self.world.count_entries())["MAILBOX_CONNECTED"] == 1
        [row] = await self.world.rows("SELECT ssm_parameter FROM credentials")
        assert self.world.list_parameters() == [*row], "every grant in AWS SSM belongs to a mailbox"


class Disconnect(CommandScenario):
    """An operator disconnects a mailbox, and again when the command broke off."""

    uses_aws = True
    changed: ClassVar = {"vault": "ssm"}

    async def prepare(self) -> None:
        self.box = await self.world.room.mailbox(self.provider)
        await self.world.perform(WorkKind.SUBSCRIBE, WorkKind.SYNC)
        self.arguments = ("mailboxes", "disconnect", self.box.address)

    async def check(self) -> None:
        disconnected = "SELECT disconnected_at IS NOT NULL FROM mailboxes"
        assert await self.world.rows(disconnected) == [(True,)]
        assert await self.world.rows("SELECT FROM credentials") == []
        assert (await self.world.count_entries())["MAILBOX_DISCONNECTED"] == 1
        assert self.world.sim.get(f"mailboxes/{self.box.address}")["subscriptions"] == []
        assert self.world.list_parameters() == []
        if self.provider == "gmail":  # Entra cannot revoke a single grant
            left = self.world.sim.post(f"mailboxes/{self.box.address}/revoke")
            assert left["count"] == 0


class LowerPolicy(CommandScenario):
    """An operator lowers the content policy of a mailbox; a worker completes it."""

    async def prepare(self) -> None:
        self.box = await self.world.room.mailbox(self.provider, messages=2)
        self.world.sim.deliver(self.box.address, samples.write_message(INVOICE))
        await self.world.perform(WorkKind.SYNC)
        assert await self.world.rows("SELECT count(*) > 0 FROM message_contents") == [(True,)]
        self.arguments = ("mailboxes", "policy", self.box.address, "metadata")

    async def recover(self) -> None:
        await super().recover()
        await self.world.room.move_clock(HOUR)
        await self.world.work()

    async def check(self) -> None:
        assert await self.box.check(whole=False) == 3
        assert await self.world.rows("SELECT count(*) FROM attachments") == [(0,)]
        texts = "SELECT count(*) FROM message_contents WHERE body_plain IS NOT NULL"
        assert await self.world.rows(texts) == [(0,)]
        assert (await self.world.count_entries())["MAILBOX_POLICY_CHANGED"] == 1


class PurgePerson(CommandScenario):
    """An operator purges a person, and again when the command broke off."""

    async def prepare(self) -> None:
        self.box = await self.world.room.mailbox(self.provider)
        for person in ("ann", "bob"):
            raw = f"From: {person}@example.org\r\nTo: x@example.com\r\nSubject: {person}\r\n\r\nText\r\n"
            self.world.sim.deliver(self.box.address, raw.encode())
        await self.world.perform(WorkKind.SYNC)
        self.arguments = ("purge", "person", "ann@example.org", "--yes")

    async def check(self) -> None:
        await self.box.wake()
        await self.world.perform(WorkKind.SYNC)
        assert await self.world.rows("SELECT subject FROM messages") == [("bob",)]
        found = json.loads(await self.world.run("purge", "person", "ann@example.org", "--json"))
        assert (found["messages"], found["arrivals"], found["ledger"]) == (0, 0, 0)


class FirstEntry(CommandScenario):
    """A command writes the first ledger entry, and again, with the same key, when it broke off."""

    arguments = ("api-keys", "create", "first", "--scope", "read")

    async def check(self) -> None:
        assert await self.world.rows("SELECT count(*) FROM api_keys") == [(1,)]
        for name in ("ledger.key", "ledger.macs"):
            assert len((self.world.home / name).read_text().splitlines()) == 1
        await self.world.work()
        await self.world.run("ledger", "verify")


class RotateKey(CommandScenario):
    """An operator rotates the key of the vault, and again when the command broke off."""

    arguments = ("vault", "rotate")
    changed: ClassVar = {"vault_keys": None}

    async def prepare(self) -> None:
        self.box = await self.world.room.mailbox(self.provider, messages=2)

    async def check(self) -> None:
        """The new key opens everything, also in other processes."""
        used = """
            SELECT count(DISTINCT key_id)
            FROM credentials, unnest(ARRAY[grant_key_id, access_key_id]) AS key_id
        """
        assert await self.world.rows(used) == [(1,)]
        await self.world.room.move_clock(HOUR)
        await self.world.work()
        assert await self.box.check() == 2


class ForgetKey(RotateKey):
    """An operator removes the previous key, and again when the command broke off."""

    async def prepare(self) -> None:
        await super().prepare()
        await self.world.run("vault", "rotate")
        self.keys = self.world.home / "vault.keys"
        _, old = self.keys.read_text().splitlines()
        past = self.keys.stat().st_mtime - HOUR
        os.utime(self.keys, (past, past))
        self.arguments = ("vault", "forget-key", old.partition(":")[0])

    async def recover(self) -> None:
        if len(self.keys.read_text().splitlines()) == 2:
            await super().recover()

    async def check(self) -> None:
        assert len(self.keys.read_text().splitlines()) == 1
        await super().check()
