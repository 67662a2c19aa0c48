"""`postroom documents`, `orders` and `pipelines`, and their error messages (D8, D10, D11).

Commands run in this process, as `postroom` runs them; that they do so as processes is tested once.
"""

import asyncio
import csv
import io
import json
import os
import re
from datetime import datetime
from functools import partial
from importlib import import_module
from zipfile import ZipFile

import psycopg
import pytest

import databases
from documents.fields.test_llm_reader import Vendor, served
from mailsim import samples
from postroom import cli
from postroom.cli import output, record_export
from postroom.cli.exit_codes import ExitCode
from postroom.config import Settings
from postroom.store import work
from postroom.store.work import FinishedWork
from postroom.wiring import documents as wired
from postroom.wiring.engine import open_engine
from scenarios.document_postroom import TODAY, get_attachment
from scenarios.test_document_files import PASSWORD, encrypt, join
from shared_sandbox import SharedSandbox

BILL = samples.MessageSpec(seed=1, kind="invoice", variant="letterhead", language="en", date=TODAY)
STRICT = '[invoices]\nkind = "invoice"\nconfirm_above = 1.0\n'


@pytest.fixture
def given(tmp_path, database_url):
    (tmp_path / "strict.toml").write_text(STRICT)
    (tmp_path / "bill.pdf").write_bytes(get_attachment(BILL)[1])
    return {**databases.login_settings(database_url), "POSTROOM_PIPELINES": str(tmp_path / "strict.toml")}


@pytest.fixture
def command(given, tmp_path, monkeypatch, capsys):
    """The exit code of a command, what it printed, and what it complained about."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"POSTROOM_HOME": str(tmp_path / "home"), **given}.items():
        monkeypatch.setenv(name, value)

    def to_its_end(*arguments):
        code = cli.run(arguments)
        return code, *capsys.readouterr()

    return to_its_end


@pytest.fixture
def run(command):
    def well(*arguments):
        code, printed, complaints = command(*arguments)
        assert code == 0, complaints
        return printed

    return well


@pytest.fixture
def refused(command):
    def with_one_line(*arguments):
        code, printed, complaints = command(*arguments)
        assert (code, printed) == (1, ""), complaints
        (line,) = complaints.splitlines()
        return line.removeprefix("error: ")

    return with_one_line


@pytest.fixture
def read_all(tmp_path, database_url):
    """Perform all due work, as a worker would."""

    async def do() -> None:
        settings = Settings(home=tmp_path / "home", pipelines=tmp_path / "strict.toml")
        async with (
            databases.open_pools(
                databases.to_service(database_url), entry_macs=databases.build_home_macs(tmp_path / "home")
            ) as database,
            SharedSandbox(parallel=1, ocr_processes=1) as readers,
            open_engine(settings, database) as engine,
        ):
            kinds = wired.build_handlers(engine, readers, {})
            while True:
                async with database.engine() as connection:
                    claim = await work.claim(connection, list(kinds), batch=1, lease_seconds=300)
                if not claim.leases:
                    return
                await kinds[claim.leases[0].kind].step(claim.leases[0])
                async with work.fenced_transaction(database, claim.leases[0]) as connection:
                    await work.finish(connection, [FinishedWork(claim.leases[0])])

    return lambda: asyncio.run(do())


NOTED = """
    UPDATE extractions SET checks = checks || jsonb_build_array(jsonb_build_object(
        'words', 'check digits of vat_id: they are wrong', 'passed', false, 'is_severe', false))
"""


def test_document_is_added_processed_corrected_and_exported(run, refused, read_all, tmp_path, database_url):
    assert run("documents", "list").startswith("No documents.")
    assert "queued" in run("documents", "add", "bill.pdf", "--sender", "ann@example.com")
    assert "already known" in run("documents", "add", "bill.pdf")
    read_all()
    [listed] = json.loads(run("documents", "list", "--state", "needs_review", "--json"))
    assert "uncertain" in listed["reason"]
    name = listed["id"][:8]
    shown = run("documents", "show", name)
    assert re.search(r"^state +needs_review$", shown, re.MULTILINE)
    assert re.search(r"^number +RE\d+ +[01]\.\d\d", shown, re.MULTILINE)
    assert re.search(r"^vat_rates +see below +[01]\.\d\d", shown, re.MULTILINE)
    assert "bill.pdf from ann@example.com (manual_upload)" in shown
    shown_as_read = json.loads(run("documents", "show", name, "--json"))["fields"]

    assert (
        refused("documents", "confirm", name, "--set", "gross")
        == "--set gross is not in the form FIELD=VALUE."
    )
    assert "grsos is not a field; the fields are" in refused("documents", "confirm", name, "--set", "grsos=1")
    assert "gross must be a number" in refused("documents", "confirm", name, "--set", "gross=much")
    lines = json.dumps([{"description": "Bolts", "amount": "7.50"}])
    assert "lines is a table" in refused("documents", "confirm", name, "--set", "lines=Bolts")
    right = ("--set", "gross=7.50", "--set", f"lines={lines}")
    _confirm_despite_the_sum(run, refused, name, right)
    _assert_correction_is_shown(run, name, shown_as_read["gross"]["value"], database_url)
    assert "does not need review" in refused("documents", "confirm", name)
    assert "does not need review" in refused("documents", "reject", name)
    assert "Only documents without a record" in refused("documents", "retry", name)
    read_all()

    [record] = [json.loads(line) for line in run("documents", "export").splitlines()]
    assert (record["fields"]["gross"], record["confirmed_by"]) == ("7.50", "Ann")
    [line] = record["fields"]["lines"]
    assert line == {"description": "Bolts", "quantity": None, "unit_price": None, "amount": "7.50"}
    assert record["archive_path"].startswith("archive/sender_email=ann%40example%2Ecom/")
    [row] = csv.DictReader(io.StringIO(run("documents", "export", "--format", "csv", "--kind", "invoice")))
    assert (row["gross"], row["document"]) == ("7.50", listed["id"])
    assert "Give a file with --output" in refused("documents", "export", "--format", "parquet")
    assert "There is no document kind nonsense; installed:" in refused(
        "documents", "export", "--kind", "nonsense"
    )
    assert "There is no document kind nonsense; installed:" in refused("orders", "list", "--kind", "nonsense")
    for form in ("jsonl", "csv", "parquet"):
        line = refused("documents", "export", "--format", form, "--output", "nowhere/bills")
        assert line.startswith("nowhere/bills cannot be written: no such file or directory.")
    run("documents", "export", "--format", "parquet", "--output", "bills.parquet")
    table = import_module("pyarrow.parquet").read_table(tmp_path / "bills.parquet").to_pylist()
    assert [each["gross"] for each in table] == ["7.50"]


def _confirm_despite_the_sum(run, refused, name, right):
    stopped = refused("documents", "confirm", name, *right)
    assert re.search(r"fail a check: net \+ vat = gross \(net \+ vat = \S+, gross is 7\.50\)", stopped)
    assert "--override 'net + vat = gross'" in stopped
    override = ("--override", "net + vat = gross")
    assert "Confirmed as record" in run("documents", "confirm", name, *right, *override, "--as", "Ann")


def _assert_correction_is_shown(run, name, read, database_url):
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(NOTED)
    field = json.loads(run("documents", "show", name, "--json"))["fields"]["gross"]
    assert (field["value"], field["read_value"], field["corrected_by"]) == ("7.50", read, "Ann")
    assert datetime.fromisoformat(field["corrected_at"])
    shown = run("documents", "show", name)
    assert re.search(
        rf"^gross +7\.50 +1\.00 +corrected by Ann at \d{{4}}-\d\d-\d\d \d\d:\d\d UTC; read: {read}$",
        shown,
        re.MULTILINE,
    )
    assert re.search(r"corrected by Ann at .*; read: \d+ rows$", shown, re.MULTILINE)
    assert re.search(r"^FAILED +net \+ vat = gross: .* gross is 7\.50$", shown, re.MULTILINE)
    assert re.search(r"^noted +check digits of vat_id: they are wrong$", shown, re.MULTILINE)


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (("records", "list", "--due", "soon"), "due must be one of overdue, week."),
        (("documents", "list", "--min", "much"), "min must be a number such as 119.00."),
        (("orders", "list", "--sort", "colour"), "sort must be one of created, -created, reference"),
        (("messages", "list", "--from", "monday"), "from must be a date such as 2026-03-01."),
    ],
)
def test_invalid_filter_is_an_error_that_names_the_values(command, arguments, problem):
    code, printed, complaint = command(*arguments)
    assert (code, printed) == (ExitCode.USAGE, "")
    assert problem in complaint


def _assert_filters_select(run, facts):
    """One record, linked to an order, is found by filters that fit and by no others."""
    lists = {
        "documents": (("--q", facts["number"], "--sort", "-amount"), ("--min", "99999999")),
        "records": (("--order", "linked"), ("--order", "missing")),
        "orders": (("--state", "matched"), ("--state", "open")),
        "suppliers": (("--kind", "invoice"), ("--q", "nobody")),
    }
    for name, (fitting, other) in lists.items():
        assert len(json.loads(run(name, "list", *fitting, "--json"))) == 1, name
        assert json.loads(run(name, "list", *other, "--json")) == [], name
    assert facts["number"] in run("documents", "export", "--until", "2999-12-31", "--format", "csv")
    assert facts["number"] not in run("documents", "export", "--from", "2999-12-31", "--format", "csv")
    assert "SUPPLIER" in run("suppliers", "list")
    [supplier] = json.loads(run("suppliers", "list", "--json"))
    assert run("suppliers", "trust", supplier["id"], "--off", "--as", "Ann").startswith("trust: off\n")
    shown = json.loads(run("suppliers", "trust", supplier["id"], "--json"))
    assert (shown["trusted"], [each["confirmed"] for each in shown["layouts"]]) == (False, [1])
    assert "No messages match." in run("messages", "list", "--attachments", "yes")


def test_record_is_linked_corrected_reopened_and_voided(run, refused, read_all, tmp_path):
    run("documents", "add", "bill.pdf")
    read_all()
    [document] = json.loads(run("documents", "list", "--json"))
    run("documents", "confirm", document["id"])
    facts = samples.get_document_facts(BILL)
    (tmp_path / "orders.csv").write_text(f"reference,number,gross\nO-1,{facts['number']},{facts['gross']}\n")
    run("orders", "import", "orders.csv", "--kind", "invoice")
    [listed] = json.loads(run("records", "list", "--json"))
    assert (listed["order"], listed["state"]) == ("O-1", "confirmed")
    record = listed["record"][:8]
    _assert_filters_select(run, facts)
    assert re.search(rf"^O-1 +invoice +matched +{record}", run("orders", "list"), re.MULTILINE)
    why = ("--reason", "misread", "--as", "Ann")
    assert "fail a check: net + vat = gross" in refused(
        "records", "correct", record, "--set", "gross=1.00", *why
    )
    assert "version 3" in run("records", "correct", record, "--set", "number=R-7", "--order", "", *why)
    shown = run("records", "show", record)
    assert re.search(r"^number +R-7$", shown, re.MULTILINE)
    assert re.search(r"^vat_rates +see below$", shown, re.MULTILINE)
    assert re.search(r"^vat_rates:\n(net|vat|rate) +(net|vat|rate) +(net|vat|rate)$", shown, re.MULTILINE)
    assert "Only a merged record" in refused("records", "split", record, *why)
    assert re.search(r"^3 +corrected +Ann +misread$", shown, re.MULTILINE)
    assert json.loads(run("orders", "list", "--json"))[0]["record_id"] is None
    assert "Confirm or reject its document" in run("records", "reopen", record, *why)
    assert "is reopened. Confirm or reject its document first." in refused("records", "reopen", record, *why)
    run("documents", "confirm", document["id"], "--order", "O-1")
    assert "No record has the key nothing" in refused("records", "merge", record, "--into", "nothing", *why)
    assert "only be merged into another one" in refused("records", "merge", record, "--into", record, *why)
    alone = ("records", "split", record, "--document", document["id"], *why)
    assert "It is the only document" in refused(*alone)
    assert run("records", "void", record, *why).startswith("Voided ")
    assert "is voided. Reopen it first." in refused("records", "void", record, *why)
    assert run("records", "list").startswith("No records.")
    assert run("documents", "export") == ""
    [exported] = [json.loads(line) for line in run("documents", "export", "--all").splitlines()]
    assert (exported["state"], exported["fields"]["number"]) == ("voided", "R-7")
    assert "voided" in run("records", "list", "--all")


def test_rejected_document_can_be_retried(run, refused, read_all):
    run("documents", "add", "bill.pdf")
    read_all()
    [listed] = json.loads(run("documents", "list", "--json"))
    assert run("documents", "reject", listed["id"], "--reason", "private") == "Rejected.\n"
    assert run("documents", "list").startswith("No documents."), "skipped ones are shown when asked for"
    for asked in (["--all"], ["--state", "skipped"]):
        assert "rejected: private" in run("documents", "list", *asked)
    assert run("documents", "retry", "--state", "skipped") == "Queued: 1.\n"
    read_all()
    assert run("documents", "retry", "--state", "needs_review", "--pipeline", "invoices") == "Queued: 1.\n"
    for asked in ([], ["--pipeline", "invoices"], [listed["id"], "--state", "failed"]):
        line = refused("documents", "retry", *asked)
        assert line == "Give either a document, or --state and optionally --pipeline."


def test_document_is_commented_and_assigned(run, refused, read_all):
    run("documents", "add", "bill.pdf")
    read_all()
    [listed] = json.loads(run("documents", "list", "--json"))
    assert run("documents", "comment", listed["id"], "Ask Ann.") == "Commented.\n"
    assert refused("documents", "comment", listed["id"], " ") == "The comment is empty. Enter some text."
    unknown = refused("documents", "assign", listed["id"], "gone@example.org")
    assert unknown == "No member has the address gone@example.org."
    assert run("documents", "assign", listed["id"]) == "Assigned to no one.\n"


def test_failed_document_is_dismissed(run, refused, read_all, tmp_path):
    (tmp_path / "damaged.pdf").write_bytes(b"%PDF-1.7 damaged")
    run("documents", "add", str(tmp_path / "damaged.pdf"))
    read_all()
    [failed] = json.loads(run("documents", "list", "--json"))
    assert failed["state"] == "failed"
    assert run("documents", "reject", failed["id"], "--reason", "damaged") == "Rejected.\n"
    assert "rejected: damaged" in run("documents", "list", "--state", "skipped")
    assert "The document is skipped" in refused("documents", "reject", failed["id"])


def test_encrypted_document_is_unlocked_from_standard_input_and_split(
    run, refused, read_all, tmp_path, monkeypatch
):
    (tmp_path / "locked.pdf").write_bytes(encrypt(join(get_attachment(BILL)[1], get_attachment(BILL)[1])))
    run("documents", "add", "locked.pdf")
    read_all()
    [listed] = json.loads(run("documents", "list", "--json"))
    assert listed["reason"] == "needs a password: the file is encrypted"
    name = listed["id"][:8]
    monkeypatch.setattr("sys.stdin", io.StringIO("my guess\n"))
    assert refused("documents", "unlock", name) == "The password is wrong. Enter the password of this PDF."
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    assert run("documents", "unlock", name) == "Unlocked and queued.\n"
    read_all()
    assert "is not a list of pages" in refused("documents", "split", name, "--pages", "one")
    printed = run("documents", "split", name, "--pages", "1-2,3-4")
    assert re.findall(r"pages (\S+)", printed) == ["1-2", "3-4"]
    assert run("documents", "split", name, "--pages", "1-2,3-4") == printed, "it is split once"
    part = printed.split()[0]
    assert f"part of       {listed['id']}, pages 1-2" in run("documents", "show", part)
    assert f"split into    {part}" in run("documents", "show", name)


def test_wrong_files_and_names_are_reported(postroom, refused, given, tmp_path):
    (tmp_path / "empty.pdf").write_bytes(b"")
    strange = os.fsdecode(b"caf\xe9.pdf")
    (tmp_path / strange).write_bytes((tmp_path / "bill.pdf").read_bytes() + b"\n")
    with ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.write(tmp_path / "bill.pdf", "bill.pdf")
        archive.writestr("notes.doc", "words")
    (tmp_path / "cut.zip").write_bytes((tmp_path / "two.zip").read_bytes()[:-30])
    files = ("empty.pdf", "nowhere.pdf", "bill.pdf", strange, "two.zip", "cut.zip")
    done = postroom("documents", "add", *files, **given)
    assert done.returncode == 1
    assert "it is empty" in done.stdout
    assert "cannot be read: No such file" in done.stdout
    assert "queued" in done.stdout, "the others are taken all the same"
    assert re.search(r"^caf\S+pdf .* queued$", done.stdout, re.MULTILINE)
    assert "ignored: notes.doc: it is not a PDF" in done.stdout
    assert "The ZIP file is damaged" in done.stdout
    assert "Message 999999999999999999999 does not exist" in refused("pipelines", "try", "9" * 21)
    assert "No such pipeline: orders" in refused("documents", "add", "bill.pdf", "--pipeline", "orders")
    assert "No document has an ID that starts with ffff" in refused("documents", "show", "ffff")
    assert refused("documents", "show", "x'; --").startswith("No document")
    done = postroom("documents", "list", "--pipeline", os.fsdecode(b"caf\xe9"), **given)
    assert (done.returncode, done.stderr) == (
        2,
        "error: An argument is not valid UTF-8. Enter it as UTF-8 text.\n",
    )


def test_orders_are_imported_once_and_invalid_lines_are_named(run, refused, tmp_path):
    file = tmp_path / "orders.csv"
    assert run("orders", "list").startswith("No orders.")
    file.write_text("reference,username,isin,quantity\nO-1,ann,US0378331005,100\nO-2,,US0378331005,5\n")
    assert run("orders", "import", "orders.csv", "--kind", "contract-note") == (
        "2 new, 0 updated, 0 unchanged.\n"
    )
    file.write_text(file.read_text().replace(",5\n", ",6\n"))
    assert run("orders", "import", "orders.csv", "--kind", "contract-note") == (
        "0 new, 1 updated, 1 unchanged.\n"
    )
    assert {
        each["reference"]: each["fields"]["quantity"] for each in json.loads(run("orders", "list", "--json"))
    } == {
        "O-1": "100",
        "O-2": "6",
    }
    assert run("orders", "close", "O-2", "--kind", "contract-note") == "Closed O-2.\n"
    assert "No order O-9" in refused("orders", "close", "O-9", "--kind", "contract-note")
    importing = ("orders", "import", "orders.csv", "--kind")
    assert "No such kind: bond. Choose one of:" in refused(*importing, "bond")
    file.write_text("reference,colour\nO-1,red\n")
    assert "has unknown columns: colour" in refused(*importing, "contract-note")
    file.write_text("isin\nUS0378331005\n")
    assert "has no column `reference`" in refused(*importing, "contract-note")
    file.write_text("reference,isin\n,US0378331005\n")
    assert "line 2: the reference is missing" in refused(*importing, "contract-note")
    file.write_text("reference,isin\nO-1,US0378331005,more\n")
    assert "line 2: more values than columns" in refused(*importing, "contract-note")
    file.write_text("reference,trade_date\nO-1,2026-02-04\nO-2,04.02.2026\n")
    assert "line 3: trade_date must be a date such as 2026-02-04, not 04.02.2026" in refused(
        *importing, "contract-note"
    )
    file.write_text("reference,isin,isin\nO-1,,\n")
    assert "has the column isin twice" in refused(*importing, "contract-note")
    file.write_text("reference,isin\nO-1,US0378331005\nO-1,US0378331005\n")
    assert "line 3: duplicate reference" in refused(*importing, "contract-note")
    file.write_text("reference,isin\nO-1,US0378331005\n\n,US0378331005\n")
    assert "line 4: the reference is missing" in refused(*importing, "contract-note")
    file.unlink()
    assert "cannot be read" in refused(*importing, "contract-note")


def test_pipelines_are_listed_checked_and_tried(command, run, refused, tmp_path, monkeypatch):
    [listed] = json.loads(run("pipelines", "list", "--json"))
    assert (listed["name"], listed["confirm_above"]) == ("invoices", 1.0)
    assert "is valid: invoices." in run("pipelines", "check")
    assert run("pipelines", "watched").startswith("No files.")
    (tmp_path / "wrong.toml").write_text('[a]\nkind = "bond"\n[b]\nkind = "invoice"\nfolder = "x"\n')
    code, _, complaints = command("pipelines", "check", "wrong.toml")
    assert code == ExitCode.USAGE
    assert "a.kind: 'bond' is not a document kind" in complaints
    assert "b.folder: is not a key of a pipeline" in complaints
    (tmp_path / "strict.toml").write_text(STRICT + 'keep = "archive"\n')
    assert json.loads(run("pipelines", "list", "--json"))[0]["keep"] == "archive"
    for name, value in (("POSTROOM_ARCHIVE", "none"), ("POSTROOM_BLOBS", "s3://bucket")):
        with monkeypatch.context() as changed:
            changed.setenv(name, value)
            code, _, complaints = command("pipelines", "list")
        assert (code, "Set POSTROOM_BLOBS=disk" in complaints) == (ExitCode.USAGE, True)
    [tried] = json.loads(run("pipelines", "try", "bill.pdf", "--json"))
    assert tried["extract"]["fields"]["gross"]["value"] == samples.get_document_facts(BILL)["gross"]
    assert tried["route"]["state"] == "needs_review"
    with monkeypatch.context() as changed:
        changed.setenv("POSTROOM_LLM", "openai:some-model")
        changed.setenv("POSTROOM_LLM_KEY", "example")
        code, printed, said = command("pipelines", "try", "bill.pdf")
    assert (code, "by offline" in printed) == (0, True)
    assert "The language model openai:some-model is not used. Add --llm to use it." in said
    assert "--llm requires a language model" in refused("pipelines", "try", "bill.pdf", "--llm")
    assert run("documents", "list").startswith("No documents."), "a try stores nothing"
    assert "No such pipeline: x" in refused("pipelines", "try", "bill.pdf", "--pipeline", "x")
    assert "cannot be read" in refused("pipelines", "try", "nowhere.pdf")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 nothing more")
    assert "The PDF is truncated" in refused("pipelines", "try", "broken.pdf")


async def test_try_uses_the_language_model_on_request_and_shows_its_cost(command, monkeypatch):
    vendor = Vendor({"number": samples.get_document_facts(BILL)["number"], "supplier": "Nowhere Ltd"})
    async with served(vendor) as url:
        given = {"LLM": "openai:gpt-4o", "LLM_BASE_URL": f"{url}/v1", "LLM_KEY": "example"}
        for name, value in given.items():
            monkeypatch.setenv(f"POSTROOM_{name}", value)
        asked = partial(asyncio.to_thread, command, "pipelines", "try", "bill.pdf", "--llm")
        code, printed, said = await asked()
        assert (code, "is billed for this run" in said) == (0, True)
        assert re.search(r"extract +by openai:gpt-4o, 1,100 tokens, USD 0\.00\d+$", printed, re.MULTILINE)
        assert re.search(r"the readers disagree on supplier: .+ or Nowhere Ltd", printed)
        assert len(vendor.asked) == 1
        monkeypatch.setenv("POSTROOM_LLM_USD_PER_DAY", "0")
        _, printed, _ = await asked("--json")
    [tried] = json.loads(printed)
    assert (tried["extract"]["reader"], tried["extract"]["tokens"]) == ("offline", 0)
    assert "daily budget is used up" in tried["extract"]["fallback_reason"]


def test_exported_cells_are_no_formulas_and_table_cells_stay_on_one_line(tmp_path, capsys):
    fields = {
        "supplier": '=HYPERLINK("x")',
        "net": "-119.00",
        "number": "-1+2",
        "code": "@x",
    }
    record_export.write_csv([{"key": "+1", "fields": fields}], tmp_path / "out.csv")
    [row] = csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text()))
    assert row == {
        "key": "'+1",
        "supplier": '\'=HYPERLINK("x")',
        "net": "-119.00",
        "number": "'-1+2",
        "code": "'@x",
    }
    output.print_table(["FILE", "STATE"], [["a\nb\x1b.pdf", "x"]])
    assert len(capsys.readouterr().out.splitlines()) == 2
