"""`postroom demo`: database, simulator, web and workers, two mailboxes connected, mail arriving."""

import asyncio
import fcntl
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from postroom import interrupts
from postroom.cli.serve import Port
from postroom.errors import OperatorError, TransientError
from postroom.model import OrganizationId, ProviderName, Secret

if TYPE_CHECKING:
    from postroom.cli.simulator_process import SimulatorProcess
    from postroom.cli.supervisor import ChildProcess
    from postroom.config import Settings
    from postroom.engine import HttpClient, SimulatorControl
    from postroom.flow.mailboxes.connect import ConnectContext

EXAMPLES = """\b
Examples:
  postroom demo
  postroom demo --port 8025"""

# Of your settings only these are heeded: no database, bucket, queue or language model of yours is used.
_USER_SETTINGS: Final = frozenset({"log_level", "log_format"})
_MAILBOXES: Final = {
    ProviderName.GMAIL: ("ada@example.com", "Ada Green"),
    ProviderName.OUTLOOK: ("ben@example.org", "Ben Brown"),
}
_MESSAGES: Final = 200
_DAYS: Final = 28
# What arrives, in turn; every one of it at either mailbox.
_ARRIVING_KINDS: Final = (
    "invoice", "plain", "newsletter", "contract-note", "html", "junk", "invoice-scan", "reply", "invoice",
    "newsletter", "invoice-facturx", "plain", "paper", "contract-note", "invoice-zip",
)  # fmt: skip
_DELIVERY_SECONDS: Final = 4.0


def demo(port: Port = 0) -> None:
    """Run everything against simulated providers, in the directory .demo here, and print the address."""
    from postroom import config
    from postroom.cli import simulator_process, startup, up
    from postroom.web import listener

    home = Path.cwd() / ".demo"
    with (
        _lock_home(home),
        # A predecessor that was killed may need a moment to let go of the port.
        listener.open_socket("127.0.0.1", port or 0, patience_seconds=3) as listening,
        simulator_process.run_simulator(config.child_environment()) as sim,
    ):
        url = listener.get_local_url(listening)
        # What goes wrong is made good sooner than elsewhere, for those who watch.
        given = {**sim.settings, "public_url": url, "gmail_sweep_minutes": 1, "outlook_sweep_minutes": 1}
        given |= {"stop_seconds": 3, "backoff_first_seconds": 1, "backoff_max_seconds": 10}
        given |= {"lease_seconds": 10, "home": home}
        ignored = config.Settings.model_fields.keys() - _USER_SETTINGS - given.keys()
        settings = startup.load_process_settings("demo", ignoring=ignored, **given)
        environment = config.child_environment(**dict.fromkeys(ignored), **given)
        with startup.database_url(settings) as database_url:
            kept = up.build_children(listening, 2, environment)
            interrupts.run_async(_run(settings, database_url, listening, sim, kept))


@contextmanager
def _lock_home(home: Path) -> Generator[None]:
    """One demonstration at a time in a directory: the next one begins anew, and removes what it finds."""
    home.mkdir(mode=0o700, exist_ok=True)
    with (home / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OperatorError(
                f"A demonstration runs in {home} already. End it, or start this one in another directory."
            ) from None
        yield


async def _run(
    settings: "Settings",
    url: str,
    listening: socket.socket,
    sim: "SimulatorProcess",
    kept: "list[ChildProcess]",
) -> None:
    from postroom.cli import startup, supervisor, up
    from postroom.store import schema_migrations
    from postroom.wiring import remotes

    stop = up.stop_on_signals()
    await schema_migrations.drop_schema(url)
    await schema_migrations.migrate(url, lambda each: startup.say(f"applying {each.version:04} {each.name}"))
    async with remotes.open_http_client(settings) as client:
        control = remotes.build_simulator(client, sim.control)
        await _create_simulated_mailboxes(control, settings.public_url or "", sim)
        link = await _connect_mailboxes(settings, url, client, control)
        beside = [
            asyncio.create_task(each)
            for each in (
                up.print_address_when_ready(listening, link),
                _deliver_mail(control),
                _stop_with_simulator(sim, stop),
            )
        ]
        try:
            await supervisor.supervise(kept, stop, stop_seconds=settings.stop_seconds + 2)
        finally:
            for task in beside:
                task.cancel()


async def _create_simulated_mailboxes(control: "SimulatorControl", url: str, sim: "SimulatorProcess") -> None:
    """The accounts at the simulator, with the mail of the last weeks, and Google's way to push."""
    from postroom.cli import startup

    startup.say(f"writing {2 * _MESSAGES} messages for two simulated mailboxes")
    given = sim.settings
    push = f"{url}/webhooks/gmail?token={given['pubsub_token']}"
    await control.push_to(given["pubsub_topic"], given["pubsub_subscription"], push)
    for provider, (address, name) in _MAILBOXES.items():
        await control.create(provider, address, name, messages=_MESSAGES, days=_DAYS)


async def _connect_mailboxes(
    settings: "Settings", url: str, client: "HttpClient", control: "SimulatorControl"
) -> str:
    """An admin, both mailboxes connected as a person would, and the link that signs the admin in."""
    from postroom.cli import startup
    from postroom.flow.access import members, sign_in
    from postroom.store import database, health
    from postroom.wiring.engine import build_engine

    organization, public = OrganizationId(settings.organization), settings.public_url or ""
    async with database.open_database(url, pool_size=3, name=health.process_name("demo")) as opened:
        admin, _ = await members.ensure_admin(opened, organization)
        desk = build_engine(settings, opened, client, url=public).connect
        for provider, (address, _) in _MAILBOXES.items():
            startup.say(f"connecting {address}")
            await _connect_mailbox(desk, organization, provider, address, control)
        token = await sign_in.create_link(opened, admin, actor="command line")
        return sign_in.build_link_url(public, token, following="/demo")


async def _connect_mailbox(
    desk: "ConnectContext",
    organization: OrganizationId,
    provider: ProviderName,
    address: str,
    control: "SimulatorControl",
) -> None:
    """The sign-in at the provider, from the first redirect to the grant that is kept."""
    from postroom.flow.mailboxes import connect

    browser = Secret(uuid4().hex)
    asked = await connect.begin_login(
        desk, organization, provider, connect.ConnectRequest(), browser=browser, login_id=uuid4()
    )
    told = await control.consent(asked, address)
    done = await connect.complete_login(
        desk,
        provider,
        state=Secret(told.get("state", "")),
        browser=browser,
        code=Secret(told["code"]) if "code" in told else None,
        error=told.get("error"),
    )
    if isinstance(done, connect.LoginRefusal):
        raise OperatorError(f"The simulated mailbox could not be connected: {done.message}")


async def _deliver_mail(control: "SimulatorControl") -> None:
    """A message every few seconds, at either mailbox, and now and then one that somebody has read."""
    dice, addresses = Random(7), [address for address, _ in _MAILBOXES.values()]
    for number, kind in enumerate(cycle(_ARRIVING_KINDS)):
        await asyncio.sleep(_DELIVERY_SECONDS)
        address = addresses[number % len(addresses)]
        order = {"kind": "newsletter", "folder": _junk_folder(address)} if kind == "junk" else {"kind": kind}
        with suppress(TransientError):  # a fault that somebody ordered; the next one comes
            message = await control.deliver(address, **order)
            if dice.random() < 0.3:
                await control.mark_read(address, message)


def _junk_folder(address: str) -> str:
    return "SPAM" if address == _MAILBOXES[ProviderName.GMAIL][0] else "junkemail"


async def _stop_with_simulator(sim: "SimulatorProcess", stop: asyncio.Event) -> None:
    """Its world is gone when it ends; there is nothing left to show."""
    from postroom.cli import startup

    while sim.process.poll() is None:  # noqa: ASYNC110  another process ends, no event of ours
        await asyncio.sleep(0.5)
    startup.say("The simulator has ended, and the demonstration with it.")
    stop.set()
