"""CPU time of reading a message: ours beside the standard library's two policies. Prints the ratio.

All decode every attachment. Ours also decodes all headers and makes bodies, snippet and flags; compat32
parses three address headers; `default` reads three headers. They take turns, so that a busy machine is
busy for all.
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


def ours(raw: bytes) -> None:
    for attachment in mime.parse(raw).attachments:
        _ = attachment.content


def compat32(raw: bytes) -> None:
    message = email.message_from_bytes(raw)
    for part in message.walk():
        if not part.is_multipart():
            part.get_payload(decode=True)
    for name in ("from", "to", "cc"):
        getaddresses(message.get_all(name, []))


def default(raw: bytes) -> None:
    message = email.message_from_bytes(raw, policy=email.policy.default)
    for part in message.walk():
        if not part.is_multipart():
            part.get_payload(decode=True)
    _ = message["from"], message["to"], message["subject"]


def main() -> None:
    for name, orders in SETS.items():
        raws = [samples.write_message(order) for order in orders]
        spent: dict[str, list[float]] = {reader.__name__: [] for reader in (ours, compat32, default)}
        for _ in range(ROUNDS):
            for reader in (ours, compat32, default):
                before = time.process_time()
                for raw in raws:
                    reader(raw)
                spent[reader.__name__].append((time.process_time() - before) / len(raws) * 1000)
        figures = ", ".join(f"{reader} {statistics.median(each):.3f} ms" for reader, each in spent.items())
        ratio = statistics.median(
            theirs / mine for theirs, mine in zip(spent["compat32"], spent["ours"], strict=True)
        )
        print(f"{name}: {figures}; compat32 takes {ratio:.1f} times as long as ours")


if __name__ == "__main__":
    main()
