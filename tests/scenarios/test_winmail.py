"""An invoice inside Outlook's winmail.dat becomes a document like any other attachment."""

import asyncio
import json
from datetime import UTC, datetime
from email.message import EmailMessage

import pytest

from flow.simulated_world import TOPIC
from mailsim import samples
from mailsim.samples.tnef import encode_tnef
from postroom import cli
from postroom.model import DocumentState, ProviderName
from scenarios.document_postroom import document_postroom, get_attachment
from scenarios.mirrored_mailbox import postroom, usually
from simulator.driver import running


@pytest.fixture(scope="module")
def sim():
    with running("--clock", "manual", "--quota", "off") as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture
async def document_room(sim, database_url, owner, organization, tmp_path):
    async with (
        postroom(sim, database_url, owner, organization, tmp_path) as room,
        document_postroom(room, tmp_path) as made,
    ):
        yield made


def winmail_message(invoice, media_type):
    name, pdf = get_attachment(invoice)
    message = EmailMessage()
    message["From"], message["To"] = "billing@supplier.example", "ann@example.org"
    message["Subject"], message["Message-ID"] = "Invoice", f"<{media_type}@supplier.example>"
    message.set_content("Please find the invoice attached.")
    stream = encode_tnef("Invoice", name, pdf, datetime(2026, 2, 4, tzinfo=UTC))
    maintype, _, subtype = media_type.partition("/")
    message.add_attachment(stream, maintype=maintype, subtype=subtype, filename="winmail.dat")
    return message.as_bytes()


@pytest.mark.parametrize("provider", usually(ProviderName.OUTLOOK))
async def test_an_invoice_inside_winmail_dat_becomes_a_document(document_room, provider):
    box = await document_room.room.mailbox(provider)
    invoice = document_room.order("invoice", "letterhead", seed=1)
    await document_room.deliver(box, winmail_message(invoice, "application/ms-tnef"))
    document = await document_room.document("invoices", invoice)
    assert document.state is DocumentState.COMPLETED
    [(number,)] = await document_room.rows(
        "SELECT fields->'number'->>'value' FROM extractions WHERE document_id = %s", document.id
    )
    assert number == samples.get_document_facts(invoice)["number"]
    [(part, file_name)] = await document_room.rows(
        "SELECT part, file_name FROM arrivals WHERE document_id = %s", document.id
    )
    assert "/" in part
    assert file_name == get_attachment(invoice)[0]


async def test_winmail_dat_is_recognized_by_its_bytes_whatever_its_media_type(document_room):
    box = await document_room.room.mailbox(ProviderName.GMAIL)
    invoice = document_room.order("invoice", "", seed=8)
    await document_room.deliver(box, winmail_message(invoice, "application/octet-stream"))
    assert (await document_room.document("invoices", invoice)).state is DocumentState.COMPLETED


async def test_a_dry_run_shows_the_files_inside_winmail_dat(
    document_room, database_url, organization, tmp_path, monkeypatch, capsys
):
    invoice = document_room.order("invoice", "", seed=9)
    name, pdf = get_attachment(invoice)
    file = tmp_path / "winmail.dat"
    file.write_bytes(encode_tnef("Invoice", name, pdf, datetime(2026, 2, 4, tzinfo=UTC)))
    for key, value in {"DATABASE_URL": database_url, "HOME": tmp_path, "ORGANIZATION": organization}.items():
        monkeypatch.setenv(f"POSTROOM_{key}", str(value))
    capsys.readouterr()
    assert await asyncio.to_thread(cli.run, ["pipelines", "try", str(file), "--json"]) == 0
    numbers = {
        stages["extract"]["fields"]["number"]["value"]
        for stages in json.loads(capsys.readouterr().out)
        if "extract" in stages and "number" in stages["extract"]["fields"]
    }
    assert numbers == {samples.get_document_facts(invoice)["number"]}
