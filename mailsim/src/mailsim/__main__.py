"""The `mailsim` command: parses the options, starts the server, prints one ready line of JSON."""

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
from pathlib import Path
from typing import Any, NoReturn, get_args
from urllib.parse import urlsplit

import msgspec
import uvloop

from mailsim.app import ResettableApp
from mailsim.client_lines import explain_clients
from mailsim.clock import Clock
from mailsim.connect_proxy import serve_proxy
from mailsim.errors import InvalidRequest, SimulatorError
from mailsim.http_server import ListenAddress, listen, listener_url, serve, wait_for_signal
from mailsim.simulator import (
    LoadState,
    Quota,
    Reset,
    Simulator,
    SimulatorOptions,
    close_simulator,
    make_simulator,
)
from mailsim.state.simulation_state import SavedSimulation
from mailsim.tls import TlsFiles, issue_certificates

EXAMPLES = """\
examples:
  mailsim                                            use two free ports; the ready line names them
  mailsim --http 127.0.0.1:8026 --seed 7             use a fixed port and reproducible IDs and mail
  mailsim --clock manual --start 2026-01-05T09:00Z   stop the clock; move it with POST /_sim/clock
  mailsim --load case.mailsim                        continue a saved simulation
  mailsim --quota old --latency-ms 30                use Gmail's quotas for older projects, answer slowly
"""


@dataclass(frozen=True, slots=True)
class CommandOptions:
    http: ListenAddress
    https: ListenAddress
    proxy: ListenAddress
    options: SimulatorOptions
    manual: bool
    start: datetime | None
    supervised: bool
    show_clients: bool
    hosts: Sequence[str]
    saved: bytes | None  # content of the file to load


def main(arguments: Sequence[str] | None = None) -> None:
    try:
        command = _parse_command(arguments)
        uvloop.run(_run(command))
    except (SimulatorError, argparse.ArgumentError) as error:
        _exit_with_error(str(error))


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mailsim",
        description="Simulate Gmail and Microsoft 365 mail on loopback, with push, quotas and faults.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
    )
    _add_network_options(parser)
    add = parser.add_argument
    add(
        "--seed",
        metavar="N",
        help="set the seed; the same seed and calls give the same IDs and bytes (default: 1)",
    )
    add(
        "--latency-ms",
        metavar="N",
        help="delay every response, in milliseconds (default: 0)",
    )
    add(
        "--quota",
        choices=get_args(Quota),
        help="choose Gmail's quota table (default: new)",
    )
    add(
        "--clock",
        choices=("real", "manual"),
        help="run in real time, or move the clock only over the control API (default: real)",
    )
    add("--start", metavar="TIME", help="start the clock at this time, ISO 8601 with zone (default: now)")
    add(
        "--show-clients",
        action="store_true",
        help="print how to point common clients at it, on standard error (always done in a terminal)",
    )
    add("--load", metavar="FILE", help="continue a saved simulation, with its seed, quota, latency and clock")
    add("--supervised", action="store_true", help="exit when standard input closes")
    return parser


def _add_network_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--http",
        metavar="HOST:PORT",
        default="127.0.0.1:0",
        help="listen on this address without TLS; port 0 picks a free port (default: %(default)s)",
    )
    add(
        "--https",
        metavar="HOST:PORT",
        default="127.0.0.1:0",
        help="listen on this address with TLS; port 0 picks a free port (default: %(default)s)",
    )
    add(
        "--proxy",
        metavar="HOST:PORT",
        default="127.0.0.1:0",
        help="listen on this address as an HTTPS proxy for the providers' host names (default: %(default)s)",
    )
    add(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="also accept this host name; repeatable (default: loopback, this machine, the providers)",
    )


def _parse_command(arguments: Sequence[str] | None) -> CommandOptions:
    parsed, extra = _make_parser().parse_known_args(arguments)
    if extra:
        raise InvalidRequest(f"unknown option {' '.join(extra)}")
    if parsed.load:
        _refuse_options_of_the_file(parsed)
    seed, latency = (
        _parse_number("--seed", parsed.seed or "1", 2**63 - 1),
        _parse_number("--latency-ms", parsed.latency_ms or "0", 600_000),
    )
    return CommandOptions(
        http=ListenAddress.parse(parsed.http),
        https=ListenAddress.parse(parsed.https),
        proxy=ListenAddress.parse(parsed.proxy),
        options=SimulatorOptions(seed=seed, latency_ms=latency, quota=parsed.quota or "new"),
        manual=parsed.clock == "manual",
        start=_parse_time(parsed.start) if parsed.start else None,
        supervised=parsed.supervised,
        show_clients=parsed.show_clients or (sys.stdout.isatty() and sys.stderr.isatty()),
        hosts=parsed.allow_host,
        saved=_read_file(parsed.load) if parsed.load else None,
    )


def _refuse_options_of_the_file(parsed: argparse.Namespace) -> None:
    names = ("seed", "latency_ms", "quota", "clock", "start")
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(parsed, name) is not None]
    if given:
        raise InvalidRequest(f"--load takes {', '.join(given)} from the file; leave it out")


def _read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error


def _parse_number(option: str, text: str, highest: int) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > highest:
        raise InvalidRequest(f"{option} takes a whole number from 0 to {highest}, not {text!r}")
    return int(text)


def _parse_time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequest(f"--start takes a time such as 2026-01-05T09:00:00Z, not {text!r}") from error
    if moment.tzinfo is None:
        raise InvalidRequest(f"--start needs a time zone, for example {text}Z")
    return moment.astimezone(UTC)


def _stop_when_stdin_closes() -> None:
    """Stop this process when standard input closes, which happens however the parent process dies."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="stop-when-stdin-closes", daemon=True).start()


async def _run(command: CommandOptions) -> None:
    with ExitStack() as stack:
        plain = stack.enter_context(listen(command.http))
        secure = stack.enter_context(listen(command.https))
        proxy = stack.enter_context(listen(command.proxy))
        tls_files = stack.enter_context(issue_certificates(command.https.host, *command.hosts))
        urls = {
            "http": listener_url(plain, "http"),
            "https": listener_url(secure, "https"),
            "proxy": listener_url(proxy, "http"),
        }

        def make(reset: Reset, load: LoadState, saved: SavedSimulation | None) -> Simulator:
            options, clock = command.options, Clock(manual=command.manual, start=command.start)
            if saved is not None:
                options, clock = saved.options, Clock.resume(saved.time, manual=saved.is_manual)
            sim = make_simulator(options, clock, reset, load)
            sim.base_urls.update(urls)
            return sim

        hosts = [command.http.host, command.https.host, *command.hosts]
        app = ResettableApp(make, hosts, command.saved)
        gc.freeze()  # everything loaded so far is permanent; collections can skip it
        gc.set_threshold(10_000, 20, 20)
        async with (
            serve(app, plain, secure, tls_files.server),
            serve_proxy(proxy, urlsplit(urls["https"]), command.hosts),
        ):
            await wait_for_signal(lambda: _start(command, app.sim, tls_files))
        await close_simulator(app.sim)


def _start(command: CommandOptions, sim: Simulator, tls_files: TlsFiles) -> None:
    if command.supervised:
        _stop_when_stdin_closes()
    ready = _make_ready_line(sim, tls_files)
    sys.stdout.write(msgspec.json.encode(ready).decode() + "\n")
    sys.stdout.flush()
    if command.show_clients:
        sys.stderr.write(explain_clients(ready))


def _make_ready_line(sim: Simulator, tls_files: TlsFiles) -> dict[str, Any]:
    clients: dict[str, Any] = {
        application.provider: {
            "client_id": application.client_id,
            "client_secret": application.client_secret,
            **({"tenant": application.tenant} if application.tenant else {"project": application.project}),
        }
        for application in sim.registry.applications.values()
    }
    return {
        **sim.base_urls,
        "ca": str(tls_files.ca),
        "pid": os.getpid(),
        "control": f"{sim.base_urls['http']}/_sim",
        "seed": sim.options.seed,
        "now": sim.clock.now().isoformat(),
        "clients": clients,
    }


def _exit_with_error(reason: str) -> NoReturn:
    sys.stderr.write(f"mailsim: {reason}\n")
    raise SystemExit(2)


if __name__ == "__main__":
    main()
