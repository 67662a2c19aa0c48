"""The whole system of one seed as real processes, and where everything is.

PostgreSQL, the simulator, one web process, workers, a webhook receiver and a feed follower. Leases and
intervals are short, so that a minute shows what takes hours in production.
"""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import aiohttp

from postroom_chaos import feed_follower, webhook_receiver
from postroom_chaos.launcher import IMPORTED, IMPORTED_BY_SERVERS, Launcher
from postroom_chaos.operator_client import ActionFailed, OperatorClient
from postroom_chaos.plan import Plan, name_workers
from postroom_chaos.postgres import PostgresServer, free_port
from postroom_chaos.processes import Program, ProgramVersion, clean_environment, keep_running
from postroom_chaos.simulator import SimulatorControl, SimulatorProcess, start_simulator
from postroom_chaos.small_disk import SmallDisk

LEASE_SECONDS: Final = 3
SWEEP_MINUTES: Final = {"gmail": 5, "outlook": 15}
SWEEP_STRETCH: Final = 4  # the default, while pushes are proven; versions to upgrade from lack the setting
ORGANIZATION: Final = UUID("00000000-0000-4000-8000-000000000001")
HTTP_SECONDS: Final = 20.0
READY_SECONDS: Final = 60.0
COMMAND_SECONDS: Final = 180.0
_SCOPES: Final = ("read", "mailboxes", "documents", "webhooks", "ledger")


@dataclass
class System:
    """Everything of one run. `programs`: by name, such as `web` and `worker 1`.

    `versions` of Postroom: the one in use, and after it the one to upgrade to, if any.
    """

    folder: Path
    disk: SmallDisk
    database: PostgresServer
    simulator: SimulatorProcess
    control: SimulatorControl
    operator: OperatorClient
    versions: list[ProgramVersion]
    web_url: str
    receiver_url: str
    started: float
    programs: dict[str, Program] = field(default_factory=dict[str, Program])
    webhook: dict[str, Any] = field(default_factory=dict[str, Any])
    secrets: list[str] = field(default_factory=list[str])

    @property
    def version(self) -> ProgramVersion:
        return self.versions[0]

    @property
    def home(self) -> Path:
        return self.disk.root

    @property
    def received_webhooks(self) -> Path:
        return self.folder / "received_webhooks.jsonl"

    @property
    def feed(self) -> Path:
        return self.folder / "feed.jsonl"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    @property
    def logs(self) -> list[Path]:
        """The outputs of Postroom's processes and its database server."""
        names = ["postgres", *(name for name in self.programs if name.startswith(("web", "worker")))]
        return [log_path(self.folder, name) for name in names]

    async def run_command(self, *arguments: str) -> str:
        """Run a `postroom …` command and return its output."""
        done = await asyncio.to_thread(
            self.version.launcher.run,
            arguments,
            self.folder,
            dict(self.version.environment),
            COMMAND_SECONDS,
        )
        if done.returncode:
            raise ActionFailed(f"postroom {arguments[0]}: {done.stderr[-500:]}")
        return done.stdout

    async def set_receiver(self, mode: str) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.put(f"{self.receiver_url}/mode", data=mode) as response,
        ):
            response.raise_for_status()


def log_path(folder: Path, name: str) -> Path:
    return folder / "logs" / f"{name.replace(' ', '-')}.log"


def build_environment(plan: Plan, folder: Path, home: Path, more: dict[str, str]) -> dict[str, str]:
    """The settings of Postroom's processes."""
    settings = more | {
        "home": str(home),
        "lease_seconds": str(LEASE_SECONDS),
        "poll_seconds": "0.5",
        "concurrency": "4",
        "stop_seconds": "3",
        "max_attempts": "100",
        "backoff_first_seconds": "0.2",
        "backoff_max_seconds": "2",
        "backfill_days": str(plan.backfill_days),
        "gmail_sweep_minutes": str(SWEEP_MINUTES["gmail"]),
        "outlook_sweep_minutes": str(SWEEP_MINUTES["outlook"]),
        "session_hours": "720",
        "keep_events_days": "365",
        "webhook_networks": "127.0.0.0/8",
        "log_format": "json",
        "log_level": "debug",
    }
    settings |= {name: str(days) for name, days in plan.retention.items()}
    return clean_environment(
        TMPDIR=str(folder / "tmp"), **{f"POSTROOM_{name.upper()}": value for name, value in settings.items()}
    )


@asynccontextmanager
async def open_system(
    plan: Plan, folder: Path, disk: SmallDisk, earlier_sources: Path | None = None
) -> AsyncGenerator[System]:
    """Start everything, ready to connect mailboxes; at the end, end everything."""
    started = time.monotonic()
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    (folder / "tmp").mkdir(exist_ok=True)
    versions = [_open_version(disk.root, {"PYTHONPATH": str(earlier_sources)})] if earlier_sources else []
    versions.append(_open_version(disk.root, {}))
    database = PostgresServer(log_path(folder, "postgres"))
    simulator: SimulatorProcess | None = None
    system: System | None = None
    timeout = aiohttp.ClientTimeout(total=HTTP_SECONDS)
    async with (
        # Every request has its own connection: the web process closes those that are idle for seconds.
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True),
            timeout=timeout,
            cookie_jar=aiohttp.CookieJar(unsafe=True),
        ) as session,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=300)) as control_session,
    ):
        try:
            simulator, _, _ = await asyncio.gather(
                start_simulator(plan.seed, log_path(folder, "simulator")),
                database.create(),
                asyncio.gather(*(asyncio.to_thread(each.launcher.wait_until_ready) for each in versions)),
            )
            control = SimulatorControl(control_session, simulator.url)
            system = await _start(
                plan, folder, disk, database, simulator, control, session, versions, started
            )
            keeper = asyncio.create_task(keep_running(list(system.programs.values())))
            yield system
            keeper.cancel()
        finally:
            for program in system.programs.values() if system else ():
                program.end()
            for version in versions:
                version.launcher.end()
            if simulator is not None:
                simulator.end()
            database.remove()


def _open_version(home: Path, environment: dict[str, str]) -> ProgramVersion:
    """By the home in its environment, the oracle finds processes that outlived their parents."""
    imported = (*IMPORTED, *IMPORTED_BY_SERVERS, "aiohttp.web")
    launcher = Launcher(clean_environment(POSTROOM_HOME=str(home)) | environment, imported)
    return ProgramVersion(launcher, environment)


async def _start(
    plan: Plan,
    folder: Path,
    disk: SmallDisk,
    database: PostgresServer,
    simulator: SimulatorProcess,
    control: SimulatorControl,
    session: aiohttp.ClientSession,
    versions: list[ProgramVersion],
    started: float,
) -> System:
    port, pubsub_token = free_port(), secrets.token_urlsafe(16)
    web_url = f"http://127.0.0.1:{port}"
    more = simulator.settings(pubsub_token)
    more |= {"database_url": database.service_url, "database_owner_url": database.url()}
    more |= {"public_url": web_url, "port": str(port)}
    environment = build_environment(plan, folder, disk.root, more)
    receiver_url = f"http://127.0.0.1:{free_port()}"
    operator = OperatorClient(session, web_url, "")
    installed = [replace(each, environment={**environment, **each.environment}) for each in versions]
    system = System(
        folder, disk, database, simulator, control, operator, installed, web_url, receiver_url, started
    )
    await system.run_command("db", "migrate")
    # They create the organization. Workers schedule the daily work of those that exist when they start, and
    # of others within an hour, which is longer than a seed takes.
    key, link = await asyncio.gather(
        _create_api_key(system),
        system.run_command("members", "add", "operator@example.com", "--role", "admin"),
    )
    system.programs = build_programs(system, plan.workers)
    for program in system.programs.values():
        program.start()
    await wait_until_ready(session, web_url)
    system.programs["feed follower"] = follower = build_follower(system, key.strip())
    follower.start()
    system.operator = OperatorClient(session, web_url, key.strip())
    system.secrets += [key.strip(), pubsub_token, *simulator.client_secrets]
    await system.operator.sign_in(link.strip())
    await _configure_simulator(control, f"{web_url}/webhooks/gmail?token={pubsub_token}")
    response = await system.operator.api("POST", "webhooks", {"url": f"{receiver_url}/events"})
    system.webhook = response
    system.secrets.append(response["secret"])
    return system


async def _create_api_key(system: System) -> str:
    arguments = ("create", "chaos", *(f"--scope={scope}" for scope in _SCOPES))
    try:
        return await system.run_command("api-keys", *arguments)
    except ActionFailed:
        if len(system.versions) == 1:
            raise
        # The name of the command in earlier versions.
        return await system.run_command("keys", *arguments)


async def _configure_simulator(control: SimulatorControl, push_url: str) -> None:
    await control.push_to(push_url)
    await control.call("PATCH", "google/options", {"auto_consent": True})
    await control.call("PATCH", "microsoft/options", {"auto_consent": True})


def build_programs(system: System, workers: int) -> dict[str, Program]:
    commands = {"web": "serve"} | dict.fromkeys(name_workers(workers), "work")
    programs = {
        name: Program(name, system.version, [command], log_path(system.folder, name))
        for name, command in commands.items()
    }
    port, name = system.receiver_url.rpartition(":")[2], "webhook receiver"
    return programs | {
        name: _build_reader(
            system, name, Path(webhook_receiver.__file__), [port, str(system.received_webhooks)]
        )
    }


def build_follower(system: System, key: str) -> Program:
    arguments = [system.web_url, str(system.feed)]
    return _build_reader(system, "feed follower", Path(feed_follower.__file__), arguments, CHAOS_API_KEY=key)


def _build_reader(
    system: System, name: str, script: Path, arguments: list[str], **environment: str
) -> Program:
    """A program of the harness itself, which reads what Postroom sends."""
    log = log_path(system.folder, name)
    version = replace(system.version, environment=clean_environment(**environment))
    return Program(name, version, arguments, log, script)


async def wait_until_ready(session: aiohttp.ClientSession, web_url: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            async with session.get(f"{web_url}/sign-in") as response:
                if response.status == 200:
                    return
        except (aiohttp.ClientError, TimeoutError):
            pass
        if time.monotonic() > deadline:
            raise ActionFailed("the web process did not become ready")
        await asyncio.sleep(0.1)


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, default=str) + "\n", encoding="utf-8")
