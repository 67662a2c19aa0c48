"""Control handlers of the simulation as a whole: summary, clock, OAuth clients, faults, logs, meters."""

from datetime import UTC, datetime
from fnmatch import fnmatchcase

import msgspec

from mailsim import faults, samples
from mailsim.control.endpoint import ControlCall
from mailsim.control.schemas import (
    ApplicationInfo,
    ClockReading,
    FaultInfo,
    MeterInfo,
    RequestFilter,
    RequestInfo,
    SimulationSummary,
)
from mailsim.errors import AlreadyExists, InvalidRequest
from mailsim.faults import ScheduledFault
from mailsim.hashing import stable_hash
from mailsim.meters import MailboxMeter
from mailsim.registry import OAuthApplication, guid
from mailsim.request_log import HttpExchange, RequestLog
from mailsim.simulator import Simulator
from mailsim.state.simulation_state import save_simulation

MAX_REQUESTS = 10_000


async def summary(call: ControlCall) -> SimulationSummary:
    sim = call.sim
    return SimulationSummary(
        seed=sim.options.seed,
        now=sim.clock.now().isoformat(),
        quota=sim.options.quota,
        latency_ms=sim.options.latency_ms,
        http=sim.base_urls.get("http", ""),
        https=sim.base_urls.get("https", ""),
        mailboxes=len(sim.registry.mailboxes),
        kinds=list(samples.list_kinds()),
        faults=list(faults.KINDS),
        providers={name: provider.names for name, provider in sim.providers.items()},
    )


async def reset(call: ControlCall) -> None:
    """Replace the simulator; only URLs, seed and options of the command stay."""
    await call.sim.reset()


async def save_state(call: ControlCall) -> bytes:
    """Save the simulation once pending pushes were answered or wait for their next attempt."""
    await call.sim.background.settle()
    return save_simulation(call.sim)


async def load_state(call: ControlCall) -> None:
    await call.sim.load(call.raw)


async def show_clock(call: ControlCall) -> ClockReading:
    return _read_clock(call.sim)


async def move_clock(call: ControlCall) -> ClockReading:
    """Respond once everything that was due in between has happened, pushes included."""
    body = call.body
    if (body.seconds is None) == (body.to is None):
        raise InvalidRequest("specify either `seconds` or `to`")
    seconds = body.seconds
    if seconds is None:
        seconds = _parse_time(body.to).timestamp() - call.sim.clock.time()
    try:
        await call.sim.clock.move(seconds)
    except ValueError as error:
        raise InvalidRequest(str(error)) from error
    return _read_clock(call.sim)


async def settle(call: ControlCall) -> ClockReading:
    """Respond once every pending push was answered or waits for its next attempt."""
    await call.sim.background.settle()
    return _read_clock(call.sim)


def _read_clock(sim: Simulator) -> ClockReading:
    return ClockReading(sim.clock.now().isoformat(), sim.clock.milliseconds(), sim.clock.manual)


def _parse_time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequest(f"{text!r} is not a time; use a form such as 2026-01-05T09:00:00Z") from error
    if moment.tzinfo is None:
        raise InvalidRequest(f"{text!r} has no time zone; append Z or an offset")
    return moment


async def list_applications(call: ControlCall) -> list[ApplicationInfo]:
    return [_application_info(application) for application in call.sim.registry.applications.values()]


async def register_application(call: ControlCall) -> ApplicationInfo:
    registry, body = call.sim.registry, call.body
    unique = (call.sim.options.seed, body.provider, len(registry.applications))
    client_id = body.client_id or guid(*unique)
    if client_id in registry.applications:
        raise AlreadyExists(f"application {client_id} already exists")
    application = OAuthApplication(
        provider=body.provider,
        client_id=client_id,
        client_secret=body.client_secret or f"secret-{stable_hash(*unique):016x}",
        name=body.name,
        redirect_uris=tuple(body.redirect_uris),
        tenant=body.tenant or (registry.tenant_id("example.com") if body.provider == "outlook" else ""),
        project=body.project or ("mailsim" if body.provider == "gmail" else ""),
        testing=body.testing,
        certificate=body.certificate,
    )
    return _application_info(registry.register_application(application))


def _application_info(application: OAuthApplication) -> ApplicationInfo:
    return ApplicationInfo(
        provider=application.provider,
        name=application.name,
        client_id=application.client_id,
        client_secret=application.client_secret,
        redirect_uris=list(application.redirect_uris),
        tenant=application.tenant,
        project=application.project,
        testing=application.testing,
        certificate=application.certificate,
    )


async def list_faults(call: ControlCall) -> list[FaultInfo]:
    return [_fault_info(scheduled) for scheduled in call.sim.faults.list_all()]


async def add_fault(call: ControlCall) -> FaultInfo:
    faults.check_fault_names(call.body, {name: one.names for name, one in call.sim.providers.items()})
    return _fault_info(call.sim.faults.add(call.body))


async def remove_fault(call: ControlCall) -> None:
    number = call.path["number"]
    if not number.isdecimal():
        raise InvalidRequest("a fault is identified by its number")
    call.sim.faults.remove(int(number))


async def clear_faults(call: ControlCall) -> None:
    call.sim.faults.clear()


def _fault_info(scheduled: ScheduledFault) -> FaultInfo:
    return FaultInfo(
        number=scheduled.number,
        matched=scheduled.matched,
        taken=scheduled.taken,
        **msgspec.structs.asdict(scheduled.fault),
    )


async def list_requests(call: ControlCall) -> list[RequestInfo]:
    return _list_exchanges(call.sim.request_log, call.query)


async def list_pushes(call: ControlCall) -> list[RequestInfo]:
    return _list_exchanges(call.sim.push_log, call.query)


def _list_exchanges(log: RequestLog, query: RequestFilter) -> list[RequestInfo]:
    if not 1 <= query.limit <= MAX_REQUESTS:
        raise InvalidRequest(f"limit must be between 1 and {MAX_REQUESTS}")
    listed: list[RequestInfo] = []
    for exchange in log.newest():
        if exchange.number <= query.after or len(listed) == query.limit:
            break
        if _matches(exchange, query):
            listed.append(_request_info(exchange))
    return listed


async def set_log(call: ControlCall) -> None:
    call.sim.request_log.keep_bodies = call.sim.push_log.keep_bodies = call.body.bodies


async def clear_log(call: ControlCall) -> None:
    call.sim.request_log.clear()
    call.sim.push_log.clear()


def _matches(exchange: HttpExchange, query: RequestFilter) -> bool:
    return (
        (query.status is None or exchange.status == query.status)
        and fnmatchcase(exchange.provider, query.provider)
        and any(
            fnmatchcase(mailbox, query.mailbox.lower()) for mailbox in exchange.mailbox.lower().split(", ")
        )
        and fnmatchcase(exchange.endpoint, query.endpoint)
    )


def _request_info(exchange: HttpExchange) -> RequestInfo:
    return RequestInfo(
        number=exchange.number,
        time=datetime.fromtimestamp(exchange.milliseconds / 1000, UTC).isoformat(),
        method=exchange.method,
        path=exchange.path,
        query=exchange.query,
        provider=exchange.provider,
        endpoint=exchange.endpoint,
        mailbox=exchange.mailbox,
        subscription=exchange.subscription,
        status=exchange.status,
        units=exchange.units,
        duration_ms=round(exchange.duration_ms, 3),
        fault=exchange.fault,
        via=exchange.via,
        request_headers=list(exchange.request_headers),
        request_body=exchange.request_body.decode("utf-8", "replace"),
        response_headers=list(exchange.response_headers),
        response_body=exchange.response_body.decode("utf-8", "replace"),
    )


async def list_meters(call: ControlCall) -> list[MeterInfo]:
    return [_meter_info(address, meter) for address, meter in call.sim.meters.list_all().items()]


async def reset_meters(call: ControlCall) -> None:
    call.sim.meters.reset()


def _meter_info(address: str, meter: MailboxMeter) -> MeterInfo:
    return MeterInfo(
        mailbox=address,
        units=meter.units,
        requests=meter.calls.total(),
        in_flight=meter.in_flight,
        peak=meter.peak,
        rejections=meter.rejections,
        faults=meter.faults,
        pushes_sent=meter.pushes_sent,
        pushes_acknowledged=meter.pushes_acknowledged,
        pushes_failed=meter.pushes_failed,
        pushes_dropped=meter.pushes_dropped,
        calls=dict(meter.calls),
        statuses={str(status): count for status, count in meter.statuses.items()},
    )
