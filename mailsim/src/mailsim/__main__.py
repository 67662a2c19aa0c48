"""The command `mailsim`: options in, one line of JSON out when ready, then it runs until told to end."""

import argparse
import gc
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn, get_args

import msgspec
import uvloop

from mailsim.app import make_app
from mailsim.clock import Clock
from mailsim.errors import Invalid, SimulatorError
from mailsim.serve import Address, listen, serving, until_signalled, url_of
from mailsim.simulator import Options, Quota, Simulator, close_simulator, make_simulator
from mailsim.tls import Certificates, certificates

EXAMPLES = """\
examples:
  mailsim                                            both ports are free ones; the ready line names them
  mailsim --http 127.0.0.1:8025 --seed 7             a fixed port, and the same world each time
  mailsim --clock manual --start 2026-01-05T09:00Z   time stands still until /_sim/clock moves it
  mailsim --quota old --latency-ms 30                Gmail's quotas for older projects, slower answers
"""


@dataclass(frozen=True, slots=True)
class Command:
    http: Address
    https: Address
    options: Options
    manual: bool
    start: datetime | None
    supervised: bool


def main(arguments: Sequence[str] | None = None) -> None:
    try:
        command = _command(arguments)
        uvloop.run(_run(command))
    except (SimulatorError, argparse.ArgumentError) as error:
        _give_up(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mailsim",
        description="Gmail and Microsoft 365 mail on loopback: stateful, seeded, with push, quotas, faults.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
    )
    add = parser.add_argument
    add(
        "--http",
        metavar="HOST:PORT",
        default="127.0.0.1:0",
        help="plain address; port 0 picks one (%(default)s)",
    )
    add(
        "--https",
        metavar="HOST:PORT",
        default="127.0.0.1:0",
        help="TLS address; port 0 picks one (%(default)s)",
    )
    add(
        "--seed",
        metavar="N",
        default="1",
        help="the same seed and calls give the same ids and bytes (%(default)s)",
    )
    add("--latency-ms", metavar="N", default="0", help="wait so long before each answer (%(default)s)")
    add("--quota", choices=get_args(Quota), default="new", help="Gmail's cost table and limits (%(default)s)")
    add(
        "--clock",
        choices=("real", "manual"),
        default="real",
        help="manual: time moves on order (%(default)s)",
    )
    add("--start", metavar="TIME", help="what the clock shows first, ISO 8601 with zone (now)")
    add("--supervised", action="store_true", help="end when the standard input ends, as with a dead parent")
    return parser


def _command(arguments: Sequence[str] | None) -> Command:
    given, extra = _parser().parse_known_args(arguments)
    if extra:
        raise Invalid(f"unknown option {' '.join(extra)}")
    seed, latency = (
        _number("--seed", given.seed, 2**63 - 1),
        _number("--latency-ms", given.latency_ms, 600_000),
    )
    return Command(
        http=Address.parse(given.http),
        https=Address.parse(given.https),
        options=Options(seed=seed, latency_ms=latency, quota=given.quota),
        manual=given.clock == "manual",
        start=_moment(given.start) if given.start else None,
        supervised=given.supervised,
    )


def _number(option: str, text: str, highest: int) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > highest:
        raise Invalid(f"{option} takes a whole number from 0 to {highest}, not {text!r}")
    return int(text)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid(f"--start takes a time such as 2026-01-05T09:00:00Z, not {text!r}") from error
    if moment.tzinfo is None:
        raise Invalid(f"--start needs a time zone, for example {text}Z")
    return moment.astimezone(UTC)


def _end_with_input() -> None:
    """A parent that dies in any way closes our standard input: nothing of its is left behind."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="end-with-input", daemon=True).start()


async def _run(command: Command) -> None:
    with ExitStack() as stack:
        plain = stack.enter_context(listen(command.http))
        secure = stack.enter_context(listen(command.https))
        made = stack.enter_context(certificates(command.https.host))
        sim = make_simulator(command.options, Clock(manual=command.manual, start=command.start))
        sim.places.update(http=url_of(plain, "http"), https=url_of(secure, "https"))
        app = make_app(sim)
        gc.freeze()  # what stands now stays, and need not be looked at again and again
        gc.set_threshold(10_000, 20, 20)
        async with serving(app, plain, secure, made.server):
            await until_signalled(lambda: _start(command, sim, made))
        await close_simulator(sim)


def _start(command: Command, sim: Simulator, made: Certificates) -> None:
    if command.supervised:
        _end_with_input()
    _say_ready(sim, made)


def _say_ready(sim: Simulator, made: Certificates) -> None:
    clients: dict[str, Any] = {
        application.provider: {
            "client_id": application.client_id,
            "client_secret": application.client_secret,
            **({"tenant": application.tenant} if application.tenant else {"project": application.project}),
        }
        for application in sim.world.applications.values()
    }
    line = {
        **sim.places,
        "ca": str(made.ca),
        "pid": os.getpid(),
        "control": f"{sim.places['http']}/_sim",
        "seed": sim.options.seed,
        "now": sim.clock.now().isoformat(),
        "clients": clients,
    }
    sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
    sys.stdout.flush()


def _give_up(reason: str) -> NoReturn:
    sys.stderr.write(f"mailsim: {reason}\n")
    raise SystemExit(2)


if __name__ == "__main__":
    main()
