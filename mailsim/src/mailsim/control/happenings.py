"""Control of the simulation itself: clock, applications, faults, request log, meters."""

from datetime import UTC, datetime
from fnmatch import fnmatchcase

from mailsim import faults, letters
from mailsim.control.endpoint import Call
from mailsim.control.shapes import (
    ApplicationShape,
    FaultShape,
    MeterShape,
    Moment,
    NewFault,
    RequestFilter,
    RequestShape,
    Summary,
)
from mailsim.errors import Invalid, Taken
from mailsim.faults import Fault, Plan
from mailsim.generated import stable
from mailsim.log import Exchange, RequestLog
from mailsim.meters import Meter
from mailsim.simulator import Simulator
from mailsim.world import Application, guid

MOST_REQUESTS = 10_000


async def summary(call: Call) -> Summary:
    sim = call.sim
    return Summary(
        seed=sim.options.seed,
        now=sim.clock.now().isoformat(),
        quota=sim.options.quota,
        latency_ms=sim.options.latency_ms,
        http=sim.places.get("http", ""),
        https=sim.places.get("https", ""),
        mailboxes=len(sim.world.mailboxes),
        kinds=list(letters.kinds()),
        faults=list(faults.KINDS),
    )


async def show_clock(call: Call) -> Moment:
    return _moment(call.sim)


async def move_clock(call: Call) -> Moment:
    """Answers when everything that was due meanwhile has happened, pushes included."""
    given = call.body
    if (given.seconds is None) == (given.to is None):
        raise Invalid("give either seconds or to")
    seconds = given.seconds
    if seconds is None:
        seconds = _instant(given.to).timestamp() - call.sim.clock.time()
    try:
        await call.sim.clock.move(seconds)
    except ValueError as error:
        raise Invalid(str(error)) from error
    return _moment(call.sim)


async def settle(call: Call) -> Moment:
    """Answers when every push that is under way has been answered or waits for its next attempt."""
    await call.sim.background.settle()
    return _moment(call.sim)


def _moment(sim: Simulator) -> Moment:
    return Moment(sim.clock.now().isoformat(), sim.clock.milliseconds(), sim.clock.manual)


def _instant(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid(f"{text!r} is not a time such as 2026-01-05T09:00:00Z") from error
    if moment.tzinfo is None:
        raise Invalid(f"{text!r} has no time zone")
    return moment


async def list_applications(call: Call) -> list[ApplicationShape]:
    return [_application(application) for application in call.sim.world.applications.values()]


async def register_application(call: Call) -> ApplicationShape:
    world, given = call.sim.world, call.body
    unique = (call.sim.options.seed, given.provider, len(world.applications))
    client_id = given.client_id or guid(*unique)
    if client_id in world.applications:
        raise Taken(f"there is an application {client_id} already")
    made = Application(
        provider=given.provider,
        client_id=client_id,
        client_secret=given.client_secret or f"secret-{stable(*unique):016x}",
        name=given.name,
        redirect_uris=tuple(given.redirect_uris),
        tenant=given.tenant or (world.tenant("example.com") if given.provider == "outlook" else ""),
        project=given.project or ("mailsim" if given.provider == "gmail" else ""),
        testing=given.testing,
        certificate=given.certificate,
    )
    return _application(world.register(made))


def _application(made: Application) -> ApplicationShape:
    return ApplicationShape(
        provider=made.provider,
        name=made.name,
        client_id=made.client_id,
        client_secret=made.client_secret,
        redirect_uris=list(made.redirect_uris),
        tenant=made.tenant,
        project=made.project,
        testing=made.testing,
        certificate=made.certificate,
    )


async def list_faults(call: Call) -> list[FaultShape]:
    return [_fault(plan) for plan in call.sim.faults.all()]


async def add_fault(call: Call) -> FaultShape:
    given = call.body
    _check_names(call.sim, given)
    fields = {name: getattr(given, name) for name in given.__struct_fields__}
    return _fault(call.sim.faults.add(Fault(**fields)))


def _check_names(sim: Simulator, given: NewFault) -> None:
    """A fault that could never happen is a mistake of whoever orders it."""
    providers = [one for one in sim.providers.values() if fnmatchcase(one.name, given.provider)]
    if not providers:
        raise Invalid(f"no provider {given.provider!r}; there are {', '.join(sim.providers)}")
    endpoints = sorted({name for provider in providers for name in provider.endpoints})
    if not any(fnmatchcase(name, given.endpoint) for name in endpoints):
        raise Invalid(f"no endpoint {given.endpoint!r}; there are {', '.join(endpoints)}")
    defined = [one.fault_codes[given.kind] for one in providers if given.kind in one.fault_codes]
    codes = frozenset[str]().union(*defined) if defined else frozenset({""})
    if given.code not in codes:
        known = ", ".join(sorted(codes - {""})) or "none"
        raise Invalid(f"no code {given.code!r} of {given.kind}; there are {known}")


async def remove_fault(call: Call) -> None:
    number = call.path["number"]
    if not number.isdecimal():
        raise Invalid("a fault is named by its number")
    call.sim.faults.remove(int(number))


async def clear_faults(call: Call) -> None:
    call.sim.faults.clear()


def _fault(plan: Plan) -> FaultShape:
    fields = {name: getattr(plan.fault, name) for name in Fault.__dataclass_fields__}
    return FaultShape(number=plan.number, matched=plan.matched, taken=plan.taken, **fields)


async def list_requests(call: Call) -> list[RequestShape]:
    return _chosen(call.sim.log, call.query)


async def list_pushes(call: Call) -> list[RequestShape]:
    return _chosen(call.sim.pushes, call.query)


def _chosen(log: RequestLog, wanted: RequestFilter) -> list[RequestShape]:
    if not 1 <= wanted.limit <= MOST_REQUESTS:
        raise Invalid(f"limit must be between 1 and {MOST_REQUESTS}")
    found: list[RequestShape] = []
    for exchange in log.newest():
        if exchange.number <= wanted.after or len(found) == wanted.limit:
            break
        if _is_wanted(exchange, wanted):
            found.append(_request(exchange))
    return found


async def set_log(call: Call) -> None:
    call.sim.log.bodies = call.sim.pushes.bodies = call.body.bodies


async def clear_log(call: Call) -> None:
    call.sim.log.clear()
    call.sim.pushes.clear()


def _is_wanted(exchange: Exchange, wanted: RequestFilter) -> bool:
    return (
        (wanted.status is None or exchange.status == wanted.status)
        and fnmatchcase(exchange.provider, wanted.provider)
        and any(
            fnmatchcase(mailbox, wanted.mailbox.lower()) for mailbox in exchange.mailbox.lower().split(", ")
        )
        and fnmatchcase(exchange.endpoint, wanted.endpoint)
    )


def _request(exchange: Exchange) -> RequestShape:
    return RequestShape(
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


async def list_meters(call: Call) -> list[MeterShape]:
    return [_meter(address, meter) for address, meter in call.sim.meters.all().items()]


async def reset_meters(call: Call) -> None:
    call.sim.meters.reset()


def _meter(address: str, meter: Meter) -> MeterShape:
    return MeterShape(
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
