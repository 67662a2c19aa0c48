"""The `mailsim` command: parses the options, starts the server, says that it is ready.

It prints one line of JSON for programs and, at a terminal, a text about what to do next.
"""

import argparse
import contextlib
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
from mailsim.client_lines import explain_clients, explain_first_steps
from mailsim.clock import Clock
from mailsim.connect_proxy import serve_proxy
from mailsim.errors import InvalidRequest, SimulatorError
from mailsim.http_server import ListenAddress, listen, listener_url, serve, wait_for_signal
from mailsim.scenario import play_scenario, read_scenario
from mailsim.scenario_steps import read_file
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
from mailsim.testing import MailSimulator
from mailsim.tls import TlsFiles, issue_certificates
from mailsim.welcome import create_sample_mailboxes, describe_start

EXAMPLES = """\
examples:
  mailsim                                            start with two mailboxes and print what to do next
  mailsim --scenario scenario.toml                   play a scenario once started
  mailsim play scenario.toml http://127.0.0.1:8026   play a scenario on a running mailsim
  mailsim --http 127.0.0.1:8026 --seed 7             use a fixed port and reproducible IDs and mail
  mailsim --clock manual --start 2026-01-05T09:00Z   stop the clock; move it with POST /_sim/clock
  mailsim --load case.mailsim                        continue a saved simulation
  mailsim --quota old --latency-ms 30                use Gmail's quotas for older projects, respond slowly
"""

_USUAL_ADDRESS = ListenAddress("127.0.0.1", 8026)


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
    scenario: Path | None
    is_sample: bool  # start with sample mailboxes
    is_for_person: bool


def main(arguments: Sequence[str] | None = None) -> None:
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if given[:1] == ["play"]:
            _play(given[1:])
            return
        command = _parse_command(given)
        if failures := uvloop.run(_run(command)):
            _exit_with_error(failures[0])
    except (SimulatorError, argparse.ArgumentError) as error:
        _exit_with_error(str(error))


def _play(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="mailsim play",
        description="Play a scenario on a running mailsim.",
        epilog="example:\n  mailsim play scenario.toml http://127.0.0.1:8026",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", help="the scenario, a TOML file")
    parser.add_argument("url", help="the URL of mailsim")
    if not {"-h", "--help"} & set(arguments) and len(arguments) != 2:
        raise InvalidRequest("usage: mailsim play FILE URL")
    parsed = parser.parse_args(arguments)
    url: str = parsed.url.rstrip("/")
    if not url.startswith("http://"):
        raise InvalidRequest(f"{url!r} is not a URL of mailsim, such as http://127.0.0.1:8026")
    try:
        read_scenario(Path(parsed.file))  # a mistake is named even if no mailsim runs
        play_scenario(MailSimulator(url), Path(parsed.file), _report)
    except OSError as error:
        raise InvalidRequest(f"cannot reach mailsim at {url}: {error}") from error


def _report(line: str) -> None:
    sys.stderr.write(f"mailsim: {line}\n")


def make_parser() -> argparse.ArgumentParser:
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
    add("--scenario", metavar="FILE", help="play this scenario, a TOML file, once started")
    add(
        "--world",
        choices=("sample", "empty"),
        help="start with two mailboxes, or with none (default: sample at a terminal, otherwise empty)",
    )
    add("--supervised", action="store_true", help="exit when standard input closes")
    return parser


def _add_network_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--http",
        metavar="HOST:PORT",
        help="listen on this address without TLS; port 0 picks a free port (default: 127.0.0.1:0; "
        "at a terminal 127.0.0.1:8026 if it is free)",
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
    parsed, extra = make_parser().parse_known_args(arguments)
    if extra:
        raise InvalidRequest(f"unknown option {' '.join(extra)}")
    if parsed.load:
        _refuse_options_of_the_file(parsed)
    seed, latency = (
        _parse_number("--seed", parsed.seed or "1", 2**63 - 1),
        _parse_number("--latency-ms", parsed.latency_ms or "0", 600_000),
    )
    is_for_person = sys.stdout.isatty()
    scenario = Path(parsed.scenario) if parsed.scenario else None
    if scenario is not None:
        read_scenario(scenario)  # fail before anything starts
    is_plain = not parsed.load and scenario is None
    return CommandOptions(
        http=_choose_address(parsed.http, is_for_person=is_for_person),
        https=ListenAddress.parse(parsed.https),
        proxy=ListenAddress.parse(parsed.proxy),
        options=SimulatorOptions(seed=seed, latency_ms=latency, quota=parsed.quota or "new"),
        manual=parsed.clock == "manual",
        start=_parse_time(parsed.start) if parsed.start else None,
        supervised=parsed.supervised,
        show_clients=parsed.show_clients or (is_for_person and sys.stderr.isatty()),
        hosts=parsed.allow_host,
        saved=read_file(Path(parsed.load)) if parsed.load else None,
        scenario=scenario,
        is_sample=parsed.world == "sample" or (parsed.world is None and is_for_person and is_plain),
        is_for_person=is_for_person,
    )


def _choose_address(text: str | None, *, is_for_person: bool) -> ListenAddress:
    if text is None and is_for_person:
        with contextlib.suppress(InvalidRequest), listen(_USUAL_ADDRESS):
            return _USUAL_ADDRESS
    return ListenAddress.parse(text or "127.0.0.1:0")


def _refuse_options_of_the_file(parsed: argparse.Namespace) -> None:
    names = ("seed", "latency_ms", "quota", "clock", "start")
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(parsed, name) is not None]
    if given:
        raise InvalidRequest(f"--load takes {', '.join(given)} from the file; leave it out")


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


async def _run(command: CommandOptions) -> list[str]:
    """Run until a signal; return why the scenario stopped mailsim, if it did."""
    failures: list[str] = []
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
            await wait_for_signal(lambda: _start(command, app.sim, tls_files, failures))
            found = list(failures)  # a step that fails later fails because mailsim stops
        await close_simulator(app.sim)
    return found


def _start(command: CommandOptions, sim: Simulator, tls_files: TlsFiles, failures: list[str]) -> None:
    if command.supervised:
        _stop_when_stdin_closes()
    if command.is_sample:
        create_sample_mailboxes(sim)
    ready = _make_ready_line(sim, tls_files)
    sys.stdout.write(msgspec.json.encode(ready).decode() + "\n")
    if command.is_for_person:
        sys.stdout.write(describe_start(sim, str(tls_files.ca)) + "\n")
    sys.stdout.flush()
    if command.show_clients:
        if not sim.registry.mailboxes:
            sys.stderr.write(explain_first_steps(ready))
        sys.stderr.write(explain_clients(ready))
    if command.scenario is not None:
        _play_in_thread(MailSimulator(sim.base_urls["http"]), command.scenario, failures)


def _play_in_thread(simulator: MailSimulator, scenario: Path, failures: list[str]) -> None:
    """Play a scenario beside the server; mailsim stops if a step fails."""

    def play() -> None:
        try:
            play_scenario(simulator, scenario, _report)
        except (SimulatorError, OSError) as error:
            failures.append(str(error))
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=play, name="scenario", daemon=True).start()


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
