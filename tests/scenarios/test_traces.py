"""W4: one trace from the push to the record, sent to a collector, with nothing personal in it."""

import asyncio
import gzip
import subprocess
import sys
from collections import defaultdict
from contextlib import asynccontextmanager, suppress

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from flow.simulated_world import TOPIC
from mailsim import samples
from postroom import traces, worker
from postroom.model import ProviderName, WorkKind
from postroom.wiring import documents as wired
from scenarios.document_postroom import document_postroom, get_attachment
from scenarios.mirrored_mailbox import postroom
from simulator.driver import running
from web.push_server import open_push_server, serve
from web.test_push_gmail import change, push


@asynccontextmanager
async def collecting():
    """A collector of OTLP over HTTP: its address, and the spans it was sent."""
    spans = []

    async def take(request):
        body = await request.body()
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            spans.extend(span for scope in resource.scope_spans for span in scope.spans)
        return Response(media_type="application/x-protobuf")

    async with serve(Starlette(routes=[Route("/v1/traces", take, methods=["POST"])])) as url:
        yield f"{url}/v1/traces", spans


@pytest.fixture
async def document_room(database_url, owner, organization, tmp_path):
    with running("--clock", "manual", "--quota", "off") as simulation:
        simulation.post("google/topics", name=TOPIC)
        async with (
            postroom(simulation, database_url, owner, organization, tmp_path) as room,
            document_postroom(room, tmp_path) as made,
        ):
            yield made


@asynccontextmanager
async def at_work(document_room):
    """A worker that syncs mailboxes, and reads and archives documents."""
    database, stop = document_room.room.world.database, asyncio.Event()
    kinds = {
        **document_room.engine.handlers,
        **wired.build_handlers(document_room.engine, document_room.readers, {}),
    }
    wanted = {name: kinds[name] for name in (WorkKind.SYNC, WorkKind.PROCESS_DOCUMENT, WorkKind.ARCHIVE)}
    working = asyncio.create_task(
        worker.run(database, wanted, worker.worker_limits(document_room.settings), stop)
    )
    yield
    stop.set()
    await working


async def until(document_room, query):
    while not (await document_room.rows(query))[0][0]:  # noqa: ASYNC110  the database has no event for it
        await asyncio.sleep(0.05)


async def test_one_trace_goes_from_the_push_to_the_record_and_its_archive(document_room):
    world = document_room.room.world
    box = await document_room.room.mailbox(ProviderName.GMAIL)
    await box.sync()
    order = document_room.order("invoice", "letterhead")
    world.sim.deliver(box.address, samples.write_message(order))
    async with collecting() as (url, spans), open_push_server(world.database) as push_server:
        traces.start("test", url)
        try:
            assert await push(push_server, change(box.address)) == 200
            async with at_work(document_room):
                await until(document_room, "SELECT count(*) FROM documents WHERE archived_at IS NOT NULL")
        finally:
            await asyncio.to_thread(traces.stop)
    by_trace = defaultdict(dict)
    for span in spans:
        by_trace[span.trace_id].setdefault(span.name, []).append(span)
    [trace] = [found for found in by_trace.values() if "receive" in found]
    assert set(trace) == {
        "receive", "sync", "provider call", "commit", "process_document", "read", "understand", "archive"
    }  # fmt: skip
    assert [span.name for each in trace.values() for span in each if not span.parent_span_id] == ["receive"]
    parents = {span.span_id: span for each in trace.values() for span in each}
    assert parents[trace["sync"][0].parent_span_id].name == "receive"
    assert {parents[span.parent_span_id].name for span in trace["read"]} == {"process_document"}
    recorded = str(spans)
    for secret in (box.address, order.sender[1], get_attachment(order)[0], "example.com"):
        assert secret not in recorded


def test_nothing_of_opentelemetry_is_imported_while_no_collector_is_named():
    program = """
import sys
from postroom import traces, worker
from postroom.providers import transport
from postroom.web import webhooks
with traces.span("x", parent="nonsense"):
    traces.set_attributes({"a": 1})
    assert traces.current_traceparent() is None
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    subprocess.run([sys.executable, "-c", program], check=True)


async def test_what_is_no_traceparent_begins_a_new_trace_and_errors_show_their_class():
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    traces.start_with_processor("test", lambda: SimpleSpanProcessor(kept))
    try:
        with suppress(KeyError), traces.span("a", parent="00-nonsense"):
            parent = traces.current_traceparent()
            raise KeyError("ann@example.org")
        with traces.span("b", parent=parent):
            pass
    finally:
        traces.stop()
    first, second = kept.get_finished_spans()
    assert (first.status.description, first.events) == ("KeyError", ())
    assert second.context.trace_id == first.context.trace_id
    assert second.parent.span_id == first.context.span_id
