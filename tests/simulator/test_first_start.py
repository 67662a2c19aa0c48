"""What a person gets: the text at a terminal, the sample mailboxes, and the container recipe."""

import json
import os
import pty
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from mailsim.__main__ import make_parser
from mailsim.welcome import SAMPLE_MAILBOXES
from simulator.driver import Simulation, command, environment

MAILSIM = Path(__file__).parents[2] / "mailsim"


def read_terminal(file: int, until: str) -> str:
    shown, deadline = b"", time.monotonic() + 60
    while until.encode() not in shown and time.monotonic() < deadline:
        shown += os.read(file, 4096)
    return shown.decode().replace("\r\n", "\n")


def test_a_person_at_a_terminal_gets_mailboxes_and_commands_that_work():
    parent, child = pty.openpty()
    with subprocess.Popen(command(), stdout=child, env=environment()) as process:
        os.close(child)
        shown = read_terminal(parent, "Ctrl-C")
        for _, address in SAMPLE_MAILBOXES:
            assert re.search(rf"{address} .* 50 messages", shown)
        [tokens, listing, delivery] = [line for line in shown.splitlines() if line.startswith("  curl ")]
        token = run_curl(tokens)["access_token"]
        assert len(run_curl(listing.replace("TOKEN", token))["messages"]) > 20
        assert len(run_curl(delivery)["messages"]) == 1
        process.terminate()
        assert process.wait(30) == 0
    os.close(parent)


def run_curl(line: str) -> dict[str, Any]:
    """Send what a line with curl would send."""
    [url] = re.findall(r"curl (\S+)", line)
    headers = dict(header.split(": ", 1) for header in re.findall(r"-H '([^']+)'", line))
    bodies = re.findall(r"-d '([^']+)'", line)
    request = Request(url, bodies[0].encode() if bodies else None, headers)
    with urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_a_program_gets_the_sample_mailboxes_only_if_it_asks(start: Callable[..., Simulation]):
    listed = start("--world", "sample").get("mailboxes")
    assert [(one["provider"], one["address"]) for one in listed] == list(SAMPLE_MAILBOXES)
    assert start().get("mailboxes") == []


def test_the_container_recipe_fits_the_program():
    """No image can be pulled here, so compare the recipe with what it builds and runs."""
    recipe = (MAILSIM / "Containerfile").read_text(encoding="utf-8")
    copied = re.findall(r"^COPY (.+) /src/\S*$", recipe, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (MAILSIM / name).exists(), name
    arguments = json.loads(re.findall(r"^CMD (.+)$", recipe, re.MULTILINE)[0])
    parsed = make_parser().parse_args(arguments)
    ports = re.findall(r"^EXPOSE (.+)$", recipe, re.MULTILINE)[0].split()
    assert [address.rpartition(":")[2] for address in (parsed.http, parsed.https)] == ports
    assert parsed.world == "sample"
    assert json.loads(re.findall(r"^ENTRYPOINT (.+)$", recipe, re.MULTILINE)[0]) == ["mailsim"]
    assert 'mailsim = "mailsim.__main__:main"' in (MAILSIM / "pyproject.toml").read_text(encoding="utf-8")
    assert recipe.index("USER mailsim") < recipe.index("ENTRYPOINT")


def test_the_health_check_of_the_container_passes_and_fails(sim: Simulation):
    recipe = (MAILSIM / "Containerfile").read_text(encoding="utf-8")
    [check] = re.findall(r"HEALTHCHECK .* CMD (\[.+\])$", recipe, re.MULTILINE)
    _, option, code = json.loads(check)
    assert option == "-c"
    for url, status in ((sim.http, 0), ("http://127.0.0.1:1", 1)):
        program = code.replace("http://127.0.0.1:8026", url)
        ended = subprocess.run(
            [command()[0], option, program], capture_output=True, check=False, env=environment()
        )
        assert ended.returncode == status
