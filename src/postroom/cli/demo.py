"""`postroom demo`: Postroom against the simulator, with two mailboxes.

It creates and connects the mailboxes and delivers mail while it runs. `simulator_process` starts the
simulator, `up` and `supervisor` the processes of Postroom.
"""

import asyncio
import fcntl
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Final
from uuid import uuid4

import typer

from postroom import interrupts
from postroom.cli import progress
from postroom.errors import OperatorError, TransientError
from postroom.model import OrganizationId, ProviderName, Secret

if TYPE_CHECKING:
    from postroom.cli.simulator_process import SimulatorProcess
    from postroom.cli.startup import DatabaseUrls
    from postroom.cli.supervisor import ChildProcess
    from postroom.config import Settings
    from postroom.engine import HttpClient, SimulatorControl
    from postroom.flow.mailboxes.connect import ConnectContext

EXAMPLES = """\b
Examples:
  postroom demo
  postroom demo --port 8025"""

# The demo respects only these settings: it uses no database, bucket, queue or language model of the operator.
_USER_SETTINGS: Final = frozenset({"log_level", "log_format"})
_MAILBOXES: Final = {
    ProviderName.GMAIL: ("ada@example.com", "Ada Green"),
    ProviderName.OUTLOOK: ("ben@example.org", "Ben Brown"),
}
_MESSAGES: Final = 200
_DAYS: Final = 28
# Message kinds to deliver in turn. Their number is odd, so each kind reaches both mailboxes.
_ARRIVING_KINDS: Final = (
    "invoice", "plain", "newsletter", "contract-note", "html", "junk", "invoice-scan", "reply", "invoice",
    "newsletter", "invoice-facturx", "plain", "other-document", "contract-note", "invoice-zip",
)  # fmt: skip
_DELIVERY_SECONDS: Final = 4.0


def demo(
    port: Annotated[
        int,
        typer.Option(
            metavar="PORT",
            help="Port to listen on [default: a free one]",
            min=0,
            max=65535,
            show_default=False,
        ),
    ] = 0,
) -> None:
    """Run Postroom against simulated providers.

    Stores its data in ./.demo.
    """
    from postroom import config
    from postroom.cli import simulator_process, startup, up
    from postroom.web import listener

    home = Path.cwd() / ".demo"
    with (
        _lock_home(home),
        # A previous instance that was killed may hold the port a moment longer.
        listener.open_socket("127.0.0.1", port, patience_seconds=3) as listening,
        simulator_process.run_simulator(config.child_environment()) as sim,
    ):
        url = listener.get_local_url(listening)
        # Short intervals: viewers should not wait minutes for a recovery.
        fixed = {**sim.settings, "public_url": url, "gmail_sweep_minutes": 1, "outlook_sweep_minutes": 1}
        fixed |= {"sweep_stretch": 1}
        fixed |= {"stop_seconds": 3, "backoff_first_seconds": 1, "backoff_max_seconds": 10}
        fixed |= {"lease_seconds": 10, "home": home}
        ignored = config.Settings.model_fields.keys() - _USER_SETTINGS - fixed.keys()
        settings = startup.load_process_settings("demo", ignoring=ignored, **fixed)
        environment = config.child_environment(**dict.fromkeys(ignored), **fixed)
        with startup.database_urls(settings) as urls:
            children = up.build_children(listening, 2, environment)
            interrupts.run_async(_run(settings, urls, listening, sim, children))


@contextmanager
def _lock_home(home: Path) -> Generator[None]:
    """Allow one demo per directory: each start deletes the previous demo's data."""
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        lock = (home / "demo.lock").open("w")
    except OSError as error:
        raise OperatorError(
            f"The demo cannot write to {home} ({error.strerror}). Start it in a directory that you own."
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OperatorError(
                f"A demo is already running in {home}. Stop it, or start this one in another directory."
            ) from None
        yield


async def _run(
    settings: "Settings",
    urls: "DatabaseUrls",
    listening: socket.socket,
    sim: "SimulatorProcess",
    children: "list[ChildProcess]",
) -> None:
    from postroom.cli import startup, supervisor, up
    from postroom.store import schema_migrations
    from postroom.wiring import remotes, secrets

    stop = up.stop_on_signals()
    await schema_migrations.drop_schema(urls.owner)
    # The new ledger would be compared with the head of the one that was dropped.
    secrets.build_ledger_heads(settings).path.unlink(missing_ok=True)
    await schema_migrations.migrate(urls.owner, startup.print_migration)
    async with remotes.open_http_client(settings) as client:
        control = remotes.build_simulator(client, sim.control)
        await _create_simulated_mailboxes(control, settings.public_url or "", sim)
        link = await _connect_mailboxes(settings, urls.service, client, control)
        tasks = [
            asyncio.create_task(coroutine)
            for coroutine in (
                up.print_address_when_ready(listening, link),
                _deliver_mail(control),
                _stop_with_simulator(sim, stop),
            )
        ]
        try:
            await supervisor.supervise(children, stop, stop_seconds=settings.stop_seconds + 2)
        finally:
            for task in tasks:
                task.cancel()


async def _create_simulated_mailboxes(control: "SimulatorControl", url: str, sim: "SimulatorProcess") -> None:
    """Create both accounts with a few weeks of mail, and Google's push subscription."""
    progress.print_status(f"Creating two simulated mailboxes with {_MESSAGES} messages each")
    settings = sim.settings
    push_url = f"{url}/webhooks/gmail?token={settings['pubsub_token']}"
    await control.push_to(settings["pubsub_topic"], settings["pubsub_subscription"], push_url)
    for provider, (address, name) in _MAILBOXES.items():
        await control.create(provider, address, name, messages=_MESSAGES, days=_DAYS)


async def _connect_mailboxes(
    settings: "Settings", url: str, client: "HttpClient", control: "SimulatorControl"
) -> str:
    """Create the admin, connect both mailboxes, and return the admin's sign-in link."""
    from postroom.flow.access import members, sign_in
    from postroom.wiring.database import open_process_database
    from postroom.wiring.engine import build_engine

    organization, public = OrganizationId(settings.organization), settings.public_url or ""
    async with open_process_database(settings, url, "demo") as opened:
        admin, _ = await members.ensure_admin(opened, organization)
        context = build_engine(settings, opened, client, url=public).connect
        for provider, (address, _) in _MAILBOXES.items():
            progress.print_status(f"Connecting {address}")
            await _connect_mailbox(context, organization, provider, address, control)
        token = await sign_in.create_link(opened, admin, actor="command line")
        return sign_in.build_link_url(public, token, next_path="/demo")


async def _connect_mailbox(
    context: "ConnectContext",
    organization: OrganizationId,
    provider: ProviderName,
    address: str,
    control: "SimulatorControl",
) -> None:
    """Sign in at the simulated provider as a browser would."""
    from postroom.flow.mailboxes import connect, login_checks
    from postroom.flow.mailboxes.connect_request import ConnectRequest

    browser = Secret(uuid4().hex)
    consent_url = await connect.begin_login(
        context, organization, provider, ConnectRequest(), browser=browser, login_id=uuid4()
    )
    callback = await control.consent(consent_url, address)
    result = await connect.complete_login(
        context,
        provider,
        state=Secret(callback.get("state", "")),
        browser=browser,
        code=Secret(callback["code"]) if "code" in callback else None,
        error=callback.get("error"),
    )
    if isinstance(result, login_checks.LoginRefusal):
        raise OperatorError(f"The simulated mailbox {address} could not be connected: {result.message}")


async def _deliver_mail(control: "SimulatorControl") -> None:
    """Deliver a message every few seconds, and mark some as read."""
    dice, addresses = Random(7), [address for address, _ in _MAILBOXES.values()]
    for number, kind in enumerate(cycle(_ARRIVING_KINDS)):
        await asyncio.sleep(_DELIVERY_SECONDS)
        address = addresses[number % len(addresses)]
        order = {"kind": "newsletter", "folder": _junk_folder(address)} if kind == "junk" else {"kind": kind}
        with suppress(TransientError):  # a fault injected by a viewer; the next message follows
            message = await control.deliver(address, **order)
            if dice.random() < 0.3:
                await control.mark_read(address, message)


def _junk_folder(address: str) -> str:
    return "SPAM" if address == _MAILBOXES[ProviderName.GMAIL][0] else "junkemail"


async def _stop_with_simulator(sim: "SimulatorProcess", stop: asyncio.Event) -> None:
    """Stop the demo when the simulator exits: its mailboxes exist in its memory only."""
    while sim.process.poll() is None:  # noqa: ASYNC110  another process exits
        await asyncio.sleep(0.5)
    progress.print_status("The simulator has exited; stopping the demo.")
    stop.set()
