"""parsedmarc, which reads DMARC reports from mailboxes of both providers and files them."""

import gzip
import json
from collections import Counter
from email.message import EmailMessage

import pytest

from simulator.driver import Simulation
from simulator.google_user import MODIFY
from simulator.referees.google_files import make_authorized_user, make_client_secret
from simulator.referees.referee import Prepare, Referee

pytestmark = pytest.mark.soak

REPORTS = 25
INBOXES = {"gmail": "INBOX", "outlook": "Inbox"}


def make_report(number: int) -> bytes:
    """Make a message with an aggregate report, gzipped as most senders do."""
    xml = f"""<?xml version="1.0"?>
<feedback>
  <report_metadata>
    <org_name>receiver.example.net</org_name><email>dmarc@receiver.example.net</email>
    <report_id>report-{number}</report_id>
    <date_range><begin>1772409600</begin><end>1772495999</end></date_range>
  </report_metadata>
  <policy_published>
    <domain>example.com</domain><adkim>r</adkim><aspf>r</aspf><p>none</p><sp>none</sp><pct>100</pct>
  </policy_published>
  <record>
    <row>
      <source_ip>192.0.2.{number}</source_ip><count>{number + 1}</count>
      <policy_evaluated><disposition>none</disposition><dkim>pass</dkim><spf>pass</spf></policy_evaluated>
    </row>
    <identifiers><header_from>example.com</header_from></identifiers>
    <auth_results><spf><domain>example.com</domain><result>pass</result></spf></auth_results>
  </record>
</feedback>
"""
    message = EmailMessage()
    message["From"], message["To"] = "dmarc@receiver.example.net", "reports@example.com"
    message["Subject"] = f"Report Domain: example.com Report-ID: <report-{number}>"
    message.set_content("A report is attached.")
    name = f"receiver.example.net!example.com!{number}.xml.gz"
    message.add_attachment(gzip.compress(xml.encode()), maintype="application", subtype="gzip", filename=name)
    return message.as_bytes().replace(b"\n", b"\r\n")


def parse_mailbox(program: Referee, provider: str, section: str) -> dict[str, int]:
    """Run the program once; return the number of messages in each report it wrote, by report ID."""
    config = f"""[general]
offline = True
silent = True
output = {program.home}/out
[mailbox]
reports_folder = {INBOXES[provider]}
watch = False
batch_size = 0
{section}
"""
    (program.home / "parsedmarc.ini").write_text(config, encoding="utf-8")
    program.run("parsedmarc", "-c", "parsedmarc.ini")
    written = json.loads((program.home / "out/aggregate.json").read_text(encoding="utf-8"))
    found = {report["report_metadata"]["report_id"]: report["records"][0]["count"] for report in written}
    assert len(found) == len(written)
    return found


def check_filing(sim: Simulation, address: str) -> None:
    """Check that every message is where parsedmarc puts it."""
    folders = sim.get(f"mailboxes/{address}")["folders"]
    names = {folder["id"]: folder["name"] for folder in folders}
    reports = Counter(names[key] for entry in sim.truth(address) for key in entry["folders"])
    filed = {name.rpartition("/")[2]: count for name, count in reports.items()}
    assert (filed["Aggregate"], filed["Invalid"]) == (REPORTS, 2)
    assert "INBOX" not in {name.upper() for name in filed}


def fill(sim: Simulation, provider: str, address: str) -> None:
    sim.create(provider, address)
    for number in range(REPORTS):
        sim.deliver(address, make_report(number))
    for _ in range(2):
        sim.deliver(address, kind="plain")


def test_parsedmarc_reads_and_files_reports_from_gmail(
    sim: Simulation, python_referee: Prepare, address: str
):
    fill(sim, "gmail", address)
    parsedmarc = python_referee(sim, "parsedmarc")
    parsedmarc.write_json("credentials.json", make_client_secret(sim))
    parsedmarc.write_json("token.json", make_authorized_user(sim, address, MODIFY))
    section = "[gmail_api]\ncredentials_file = credentials.json\ntoken_file = token.json"
    found = parse_mailbox(parsedmarc, "gmail", section)
    assert found == {f"report-{number}": number + 1 for number in range(REPORTS)}
    check_filing(sim, address)


def test_parsedmarc_reads_and_files_reports_from_microsoft_365(
    sim: Simulation, python_referee: Prepare, address: str
):
    fill(sim, "outlook", address)
    application = sim.post("applications", provider="outlook", name="Reports")
    section = f"""[msgraph]
auth_method = ClientSecret
client_id = {application["client_id"]}
client_secret = {application["client_secret"]}
tenant_id = {application["tenant"]}
mailbox = {address}
"""
    found = parse_mailbox(python_referee(sim, "parsedmarc"), "outlook", section)
    assert found == {f"report-{number}": number + 1 for number in range(REPORTS)}
    check_filing(sim, address)
