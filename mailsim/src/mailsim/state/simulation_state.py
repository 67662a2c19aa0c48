"""The saved state of a simulation: what is in it, how it is written, and how a new simulator takes it over.

Not saved: URLs and certificates of the process, connections, caches, and requests that are being answered.
Pending pushes, retries and reminders continue in the loaded simulation.
"""

from functools import partial
from typing import Any, cast

from mailsim.device_codes import DeviceSignIn
from mailsim.errors import InvalidRequest, SimulatorError
from mailsim.faults import Fault, ScheduledFault
from mailsim.initial_mail import InitialMail
from mailsim.mailbox import Mailbox, MailboxAccount
from mailsim.message_state import Folder, MailboxChange, MessageState
from mailsim.meters import MailboxMeter
from mailsim.registry import OAuthApplication, Registry
from mailsim.request_log import HttpExchange
from mailsim.samples import MessageSpec
from mailsim.simulator import Simulator, SimulatorOptions
from mailsim.state.object_graph import DamagedState, GraphReader, GraphWriter, SavedClass, describe
from mailsim.state.saved_part import SavedPart
from mailsim.state.state_file import read_state, write_state
from mailsim.state_index import MessageStateIndex
from mailsim.thread_index import ThreadIndex

_MAILBOX = (
    "account", "initial_mail", "folders", "changes", "sequence", "oldest_sequence", "_states", "_received",
    "_contents", "_threads", "_last_changes", "_draft_keys", "_folder_count",
)  # fmt: skip
_LOG = ("_exchanges", "_count", "keep_bodies")


def save_simulation(sim: Simulator) -> bytes:
    """Return the file. Call it after `settle`, so that no push is on its way."""
    writer = GraphWriter(list_classes(sim))
    try:
        parts = {
            name: {attribute: writer.encode(getattr(part.owner, attribute)) for attribute in part.saved}
            for name, part in list_parts(sim).items()
        }
    except RecursionError as error:
        raise InvalidRequest("the simulation holds values that are nested too deeply to be saved") from error
    clock = {"manual": sim.clock.manual, "time": sim.clock.time()}
    options = {"seed": sim.options.seed, "latency_ms": sim.options.latency_ms, "quota": sim.options.quota}
    return write_state({"options": options, "clock": clock, "parts": parts, "objects": writer.objects})


class SavedSimulation:
    """A file that was read: its options, and the state that a new simulator takes over."""

    def __init__(self, data: bytes) -> None:
        self._content = read_state(data)
        try:
            options, clock = self._content["options"], self._content["clock"]
            self.options = SimulatorOptions(
                int(options["seed"]), int(options["latency_ms"]), _check_quota(options["quota"])
            )
            self.is_manual, self.time = bool(clock["manual"]), float(clock["time"])
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedState("options or clock are missing") from error

    def restore(self, sim: Simulator) -> None:
        """Replace the state of a new simulator, then start its pending work."""
        try:
            self._restore_parts(sim)
            for meter in sim.meters.list_all().values():
                meter.in_flight = 0
            for provider in sim.providers.values():
                provider.state.resume()
        except SimulatorError:
            raise
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise DamagedState(f"{type(error).__name__} while it was read") from error

    def _restore_parts(self, sim: Simulator) -> None:
        content, parts = self._content, list_parts(sim)
        reader = GraphReader(list_classes(sim), cast("list[Any]", content["objects"]))
        saved = cast("dict[str, dict[str, Any]]", content["parts"])
        for name, part in parts.items():
            values = saved[name]
            for attribute in part.saved:
                part.set(attribute, reader.decode(values[attribute]))
        reader.check_types()


def _check_quota(name: Any) -> Any:
    if name not in {"new", "old", "off"}:
        raise ValueError(name)
    return name


def list_parts(sim: Simulator) -> dict[str, SavedPart]:
    """List the living objects with state, in the order in which they are restored."""
    registry = sim.registry
    parts = {
        "registry": SavedPart(
            registry,
            ("mailboxes", "applications", "_draws"),
            ("seed", "clock", "cache", "change_listeners", "mailbox_listeners"),
        ),
        "faults": SavedPart(sim.faults, ("_count", "_scheduled"), ("_seed",)),
        "meters": SavedPart(sim.meters, ("_meters",), ("concurrent",)),
        "requests": SavedPart(sim.request_log, _LOG),
        "pushes": SavedPart(sim.push_log, _LOG),
        "device_codes": SavedPart(sim.device_codes, ("sign_ins",), ("_registry",)),
    }
    for provider in sim.providers.values():
        parts |= provider.state.parts
    return parts


def list_classes(sim: Simulator) -> list[SavedClass]:
    described = (
        MailboxAccount, InitialMail, MessageState, Folder, MailboxChange, MessageSpec, OAuthApplication,
        Fault, ScheduledFault, MailboxMeter, HttpExchange, DeviceSignIn,
    )  # fmt: skip
    return [
        *map(describe, described),
        SavedClass(Mailbox, _MAILBOX, partial(_make_mailbox, sim.registry)),
        SavedClass(MessageStateIndex, ("_distinct", "_index", "_indexes", "_blocks", "_totals")),
        SavedClass(
            ThreadIndex,
            ("_initial_mail", "_roots", "_later_members", "_by_message_id", "_initial_total", "_later_total"),
        ),
        *(saved for provider in sim.providers.values() for saved in provider.state.classes),
    ]


def _make_mailbox(registry: Registry, values: dict[str, Any]) -> Mailbox:
    mailbox = registry.adopt_mailbox(values["account"], values["initial_mail"])
    for name in _MAILBOX[2:]:
        SavedPart(mailbox, _MAILBOX).set(name, values[name])
    return mailbox
