"""A zygote whose children do what the first word of a document says while they analyze it.

A document that starts with `answer` fails with a language model's answer.
"""

import ctypes
import signal
import time

from postroom.documents import analysis_result
from postroom.documents.sandbox import analysis_tasks, zygote


def fail():
    return {}["a field that is missing"]


def burn():
    while True:
        pass


def resist():
    """Ignore the soft limit of CPU time; the hard one kills."""
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    burn()


def grow():
    # In one piece: filling memory bit by bit can reach the limit of CPU time first.
    bytearray(10_000_000_000)


def crash():
    ctypes.string_at(0)


def stall():
    while True:
        time.sleep(60)


ATTACKS = {attack.__name__: attack for attack in (fail, burn, resist, grow, crash, stall)}


def analyze_document(content, request, limits):
    task = analysis_result.decode_task(content)
    words = task.reading.transcript.words
    if words and words[0].text in ATTACKS:
        ATTACKS[words[0].text]()
    if words and words[0].text == "answer" and task.answer:
        fail()
    return analysis_tasks.analyze_document(content, request, limits)


if __name__ == "__main__":
    analysis_tasks.TASKS["analyze"] = analyze_document
    zygote.main()
