"""Benchmark: CPU time to parse a message with postroom.mime and with the standard library's two policies.

All parsers decode every attachment. postroom.mime also decodes all headers and makes bodies, snippet and
flags; compat32 parses three address headers; `default` reads three headers. They alternate, so that other
load on the machine affects all of them.
"""

import email
import email.policy
import statistics
import time
from email.utils import getaddresses

from mailsim import samples
from mailsim.samples import MessageSpec
from postroom import mime

ROUNDS = 15
SETS = {
    "8.7 KB, plain text": [MessageSpec(seed=seed, kind="plain", size=8_000) for seed in range(40)],
    "9.1 KB, with HTML": [MessageSpec(seed=seed, kind="html", size=8_000) for seed in range(40)],
    "138 KB, with a file of 100 KB": [MessageSpec(seed=seed, kind="big", size=100_000) for seed in range(20)],
}


def parse_with_postroom(raw: bytes) -> None:
    for attachment in mime.parse(raw).attachments:
        _ = attachment.content


def parse_with_compat32(raw: bytes) -> None:
    message = email.message_from_bytes(raw)
    for part in message.walk():
        if not part.is_multipart():
            part.get_payload(decode=True)
    for name in ("from", "to", "cc"):
        getaddresses(message.get_all(name, []))


def parse_with_default(raw: bytes) -> None:
    message = email.message_from_bytes(raw, policy=email.policy.default)
    for part in message.walk():
        if not part.is_multipart():
            part.get_payload(decode=True)
    _ = message["from"], message["to"], message["subject"]


PARSERS = {"postroom": parse_with_postroom, "compat32": parse_with_compat32, "default": parse_with_default}


def main() -> None:
    for name, specs in SETS.items():
        raws = [samples.write_message(spec) for spec in specs]
        times: dict[str, list[float]] = {parser: [] for parser in PARSERS}
        for _ in range(ROUNDS):
            for parser, parse in PARSERS.items():
                before = time.process_time()
                for raw in raws:
                    parse(raw)
                times[parser].append((time.process_time() - before) / len(raws) * 1000)
        figures = ", ".join(
            f"{parser} {statistics.median(values):.3f} ms" for parser, values in times.items()
        )
        ratio = statistics.median(
            compat32 / postroom
            for compat32, postroom in zip(times["compat32"], times["postroom"], strict=True)
        )
        print(f"{name}: {figures}; compat32 takes {ratio:.1f} times as long as postroom")


if __name__ == "__main__":
    main()
