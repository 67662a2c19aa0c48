"""The language model reader: the vendors' SDKs against a fake server on loopback."""

import asyncio
import base64
import json
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from aiohttp import web

from documents.fields.test_offline_reader import NOTE
from postroom.documents.fields.llm_reader import LanguageModelReader, SourceFile, open_language_model
from postroom.documents.files import plain_text
from postroom.documents.files.file_reading import FileReading
from postroom.documents.kinds.contract_note import CONTRACT_NOTE
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.errors import SettingsError
from postroom.flow.documents.extraction import analyze_document
from postroom.model import Secret

pytestmark = pytest.mark.asyncio(loop_scope="module")
READING = FileReading(plain_text.to_transcript(NOTE))
RIGHT = {
    "isin": "US0378331005",
    "direction": "sell",
    "trade_date": "2024-03-22",
    "quantity": "475",
    "price": "35.356",
    "gross": "16794.10",
    "net": "15574.10",
    "currency": "EUR",
    "number": "ZZZZ",
}


class Vendor:
    """Answers one request after the other; the last answer stays."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.connections = set()

    async def answer(self, request):
        self.connections.add(request.transport.get_extra_info("peername"))
        self.asked.append((request.path, request.headers, await request.json()))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == "hang":
            await asyncio.sleep(30)
        if isinstance(answer, int):
            return web.json_response(
                {"type": "error", "error": {"type": "x", "message": "no"}}, status=answer
            )
        make = self.anthropic if request.path.endswith("/messages") else self.openai
        return web.json_response(make(answer))

    @staticmethod
    def anthropic(answer):
        blocks, stop = [{"type": "tool_use", "id": "t1", "name": "final_result", "input": answer}], "tool_use"
        if isinstance(answer, str):
            blocks, stop = [{"type": "text", "text": answer}], "end_turn"
        if answer == "refused":
            blocks, stop = [], "refusal"
        head = {"id": "m1", "type": "message", "role": "assistant", "model": MODELS["anthropic"]}
        usage = {"input_tokens": 1000, "output_tokens": 100}
        return {**head, "content": blocks, "stop_reason": stop, "stop_sequence": None, "usage": usage}

    @staticmethod
    def openai(answer):
        call = {"name": "final_result", "arguments": json.dumps(answer)}
        message = {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": call}]}
        reason = "tool_calls"
        if isinstance(answer, str):
            message, reason = {"content": answer}, "stop"
        if answer == "refused":
            message, reason = {"content": None}, "content_filter"
        usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
        choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", **message}}
        head = {"id": "x", "object": "chat.completion", "created": 1, "model": MODELS["openai"]}
        return {**head, "choices": [choice], "usage": usage}


@asynccontextmanager
async def served(vendor):
    app = web.Application()
    app.router.add_post("/{path:.*}", vendor.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


MODELS = {"anthropic": "claude-haiku-5-5", "openai": "gpt-4o"}


async def nothing():
    return 0.0


@asynccontextmanager
async def asked(name, url, *, spent_today=nothing, timeout_seconds=300.0):
    """A reader that asks this server."""
    base = f"{url}/v1" if name == "openai" else url
    async with open_language_model(
        f"{name}:{MODELS[name]}",
        key=Secret("sk-test"),
        base_url=base,
        usd_per_day=5.0,
        timeout_seconds=timeout_seconds,
    ) as model:
        yield LanguageModelReader(model, spent_today)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox():
    async with FileSandbox(parallel=1) as opened:
        yield opened


@pytest.fixture(params=sorted(MODELS))
def name(request):
    return request.param


async def test_an_answer_is_typed_located_checked_and_billed(sandbox, name):
    vendor = Vendor(RIGHT)
    async with served(vendor) as url, asked(name, url) as reader:
        found = await analyze_document(sandbox, reader, READING, CONTRACT_NOTE)
    assert found.source == f"{name}:{MODELS[name]}"
    assert found.fallback_reason is None
    assert found.fields["net"].value == "15574.10"
    assert found.fields["trade_date"].value == "2024-03-22"
    assert found.fields["net"].confidence >= 0.98
    assert found.fields["net"].box is not None
    assert found.failed_checks == ()
    (usage,) = found.usage
    assert (usage.input_tokens, usage.output_tokens) == (1000, 100)
    assert usage.cost_usd > 0
    _, headers, body = vendor.asked[0]
    assert "sk-test" in (headers.get("x-api-key", "") + headers.get("authorization", ""))
    assert "Ausmachender Betrag" in json.dumps(body, ensure_ascii=False)


async def test_a_value_missing_from_the_text_has_low_confidence(sandbox, name):
    async with served(Vendor(RIGHT)) as url, asked(name, url) as reader:
        found = await analyze_document(sandbox, reader, READING, CONTRACT_NOTE)
    assert "not found in the text" in found.fields["number"].evidence
    assert found.fields["number"].confidence < 0.5


@pytest.mark.parametrize(
    "answer, reason",
    [
        (429, "rate limited"),
        (401, "key was refused"),
        (500, "answered 500"),
        ("I cannot do that", "unusable"),
        ("refused", "refused"),
        ({"quantity": "many", "trade_date": "yesterday"}, "unusable"),
    ],
)
async def test_an_unusable_answer_falls_back_to_the_offline_reader(sandbox, name, answer, reason):
    async with served(Vendor(answer)) as url, asked(name, url) as reader:
        found = await analyze_document(sandbox, reader, READING, CONTRACT_NOTE)
    assert reason in found.fallback_reason
    assert found.source == "offline"
    assert found.fields["net"].value == "15574.10"


async def test_a_missing_answer_times_out(sandbox, name):
    async with served(Vendor("hang")) as url, asked(name, url, timeout_seconds=0.5) as reader:
        found = await analyze_document(sandbox, reader, READING, CONTRACT_NOTE)
    assert "did not answer within 0.5 s" in found.fallback_reason
    assert found.fields["isin"].value == "US0378331005"


async def test_an_unreachable_server_falls_back_with_a_reason(sandbox, name):
    async with asked(name, "http://127.0.0.1:9") as reader:
        found = await analyze_document(sandbox, reader, READING, CONTRACT_NOTE)
    assert "unusable" in found.fallback_reason


async def test_a_malformed_answer_is_retried_once(sandbox, name):
    vendor = Vendor({"quantity": "many"}, RIGHT)
    async with served(vendor) as url, asked(name, url) as reader:
        found = await analyze_document(sandbox, reader, READING, CONTRACT_NOTE)
    assert len(vendor.asked) == 2
    assert found.fallback_reason is None
    assert found.usage[0].input_tokens == 2000


async def test_an_exhausted_budget_sends_no_request(sandbox, name):
    vendor = Vendor(RIGHT)
    bill = []

    async def spent_today():
        return sum(usage.cost_usd for usage in bill) * 1_000_000

    async with served(vendor) as url, asked(name, url, spent_today=spent_today) as reader:
        first = await analyze_document(sandbox, reader, READING, CONTRACT_NOTE)
        bill += first.usage
        second = await analyze_document(sandbox, reader, READING, CONTRACT_NOTE)
    assert first.fallback_reason is None
    assert "budget" in second.fallback_reason
    assert len(vendor.asked) == 1


async def test_unusable_answers_are_billed(sandbox, name):
    async with served(Vendor("I cannot do that")) as url, asked(name, url) as reader:
        found = await analyze_document(sandbox, reader, READING, CONTRACT_NOTE)
    assert found.fallback_reason
    assert sum(usage.cost_usd for usage in found.usage) > 0


async def test_failing_to_rate_an_answer_keeps_the_offline_fields(name):
    hostile = FileReading(plain_text.to_transcript(f"answer\n{NOTE}"))
    async with (
        served(Vendor(RIGHT)) as url,
        asked(name, url) as reader,
        FileSandbox(parallel=1) as sandbox,
    ):
        sandbox.analysis_zygote.module = "documents.sandbox.hostile_analysis"
        found = await analyze_document(sandbox, reader, hostile, CONTRACT_NOTE)
        offline = await analyze_document(sandbox, None, hostile, CONTRACT_NOTE)
    assert offline.fields["net"]
    assert (found.fields, found.checks, found.source) == (offline.fields, offline.checks, "offline")
    assert "failed (KeyError in hostile analysis" in found.fallback_reason
    assert [each.input_tokens for each in found.usage] == [1000]


async def test_page_images_are_sent_to_vision_models(sandbox, name):
    vendor = Vendor(RIGHT)
    file = SourceFile("image/png", b"\x89PNG\r\n\x1a\n" + b"0" * 40)
    async with served(vendor) as url, asked(name, url) as reader:
        await analyze_document(sandbox, reader, READING, CONTRACT_NOTE, file=file)
    assert "iVBORw0KGgo" in json.dumps(vendor.asked[0][2])


async def test_a_pdf_is_sent_as_file_or_as_page_images(sandbox, name):
    """Anthropic takes PDFs; what an OpenAI-compatible server takes for sure are pictures."""
    vendor = Vendor(RIGHT)

    async def pages():
        return [b"RIFF0000WEBPfirst", b"RIFF0000WEBPsecond"]

    file = SourceFile("application/pdf", b"%PDF-1.7 whole", pages)
    async with served(vendor) as url, asked(name, url) as reader:
        await analyze_document(sandbox, reader, READING, CONTRACT_NOTE, file=file)
    sent = json.dumps(vendor.asked[0][2])
    whole = base64.b64encode(file.content).decode()
    pictures = [base64.b64encode(each).decode() in sent for each in await pages()]
    assert (whole in sent, pictures) == ((True, [False] * 2) if name == "anthropic" else (False, [True] * 2))


async def test_documents_of_one_process_share_a_connection(sandbox, name):
    vendor = Vendor(RIGHT)
    async with served(vendor) as url, asked(name, url) as reader:
        for _ in range(2):
            another = LanguageModelReader(reader.model, nothing)
            await analyze_document(sandbox, another, READING, CONTRACT_NOTE)
    assert len(vendor.asked) == 2
    assert len(vendor.connections) == 1


async def test_without_a_model_nothing_is_sent(sandbox):
    async with open_language_model(
        "none", key=None, base_url=None, usd_per_day=5, timeout_seconds=60
    ) as model:
        assert model is None
    assert (await analyze_document(sandbox, None, READING, CONTRACT_NOTE)).source == "offline"


async def test_a_model_needs_a_key():
    options = {"base_url": None, "usd_per_day": 5, "timeout_seconds": 60}
    with pytest.raises(SettingsError, match="POSTROOM_LLM_KEY"):
        async with open_language_model("openai:gpt-4o", key=None, **options):
            pass
    async with open_language_model("anthropic:claude-haiku-5-5", key=Secret("k"), **options) as model:
        assert (model.vendor, model.name) == ("anthropic", "claude-haiku-5-5")
