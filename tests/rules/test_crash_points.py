"""Every effect on the outside has a crash point, at which a test kills its process."""

import re
from pathlib import Path

from postroom import ports
from postroom.model import WorkKind
from postroom.providers.smtp_sender import SmtpSender
from postroom.providers.webhook_sender import WebhookSender
from postroom.sqs import SqsQueue
from postroom.vault import KeyFile, LedgerHeads, LedgerKeys, LedgerMacs
from scenarios.crash_points import DATABASE_ONLY, EFFECTS, WITHOUT_EFFECT

DOCUMENT = Path(__file__).parents[2] / "docs/crash-points.md"
# Classes with effects outside that are no protocols, because they have one implementation.
OTHERS = (SqsQueue, WebhookSender, SmtpSender, KeyFile, LedgerKeys, LedgerMacs, LedgerHeads)


def list_ports():
    """Every method of every protocol, as "Class.method"."""
    protocols = [each for each in vars(ports).values() if getattr(each, "_is_protocol", False)]
    return {
        f"{port.__name__}.{name}"
        for port in (*protocols, *OTHERS)
        if port.__module__ != "typing"
        for name, value in vars(port).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, property))
    }


def test_every_method_of_a_port_has_a_crash_point_or_no_effect():
    covered = {effect.port for effect in EFFECTS if effect.port}
    assert covered & WITHOUT_EFFECT == set()
    assert covered | WITHOUT_EFFECT == list_ports()


def test_every_kind_of_work_has_a_crash_point_at_its_commit_or_changes_only_the_database():
    commits = {effect.name.removeprefix("commit.") for effect in EFFECTS if effect.name.startswith("commit.")}
    kinds = {kind.value for kind in WorkKind}
    assert commits & DATABASE_ONLY == set()
    assert kinds <= commits | DATABASE_ONLY


def test_the_document_lists_the_crash_points():
    listed = re.findall(r"^\| `([a-z_.]+)` \|", DOCUMENT.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted({effect.name for effect in EFFECTS})
