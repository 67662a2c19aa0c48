"""apigraph, which reads and files mail as an application that signs in with a certificate."""

from collections import Counter

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from simulator.certificates import make_certificate
from simulator.driver import Simulation
from simulator.google_user import make_message
from simulator.referees.referee import Prepare

pytestmark = pytest.mark.soak

APIGRAPH = """
import json, sys
from apigraph import Graphapi

address, subject = sys.argv[1:]
with Graphapi(address) as mailbox:
    found = {status: [one["internetMessageId"] for one in mailbox.fetch_mails(status)["value"]]
             for status in ("unread", "read")}
    folders = mailbox.fetch_mail_folders()["value"]
    content = mailbox.get_mail_by_subject_direct("inbox", subject)
    checked = mailbox.create_folder("Checked")
    inner = mailbox.create_subfolder(checked["id"], "Invoices")
    again = mailbox.create_subfolder(checked["id"], "Invoices")
    mailbox.mark_as_read(content["id"])
    mailbox.move_to_folder_by_id(content["id"], inner["id"])
    listed = mailbox.fetch_mails_from_folder(address, inner["id"])["value"]
    tree = mailbox.fetch_all_folders_and_subfolders()
print(json.dumps({
    "found": found, "folders": {folder["displayName"]: folder["totalItemCount"] for folder in folders},
    "text": content["body"]["content"], "again": again,
    "listed": [one["subject"] for one in listed], "tree": list(tree["Checked"]["subfolders"]),
}))
"""
PAGE = 10  # messages on the first page, at Graph and at mailsim; apigraph reads no other


def test_apigraph_reads_and_files_mail_and_signs_out(sim: Simulation, python_referee: Prepare, address: str):
    sim.create("outlook", address, messages=60)
    raw = make_message("Quarterly figures", "Here they are.", Message_ID="<q@example.org>")
    asked = sim.deliver(address, raw)
    key, certificate = make_certificate()
    application = sim.post("applications", provider="outlook", name="Filing", certificate=certificate)
    before = sim.truth(address)
    inbox = [entry for entry in reversed(before) if entry["keys"] == ["inbox"]]
    apigraph = python_referee(sim, "apigraph")
    (apigraph.home / "key.pem").write_text(key, encoding="utf-8")
    fingerprint = x509.load_pem_x509_certificate(certificate.encode()).fingerprint(hashes.SHA1())
    apigraph.variables.update(
        APIGRAPH_CLIENT_ID=application["client_id"],
        APIGRAPH_TENANT_ID=application["tenant"],
        APIGRAPH_CERT_PATH="key.pem",
        APIGRAPH_CERT_THUMBPRINT=fingerprint.hex(),
    )
    seen = apigraph.python(APIGRAPH, address, "Quarterly figures")

    for status, is_read in (("unread", False), ("read", True)):
        expected = [entry["message_id"] for entry in inbox if entry["read"] is is_read]
        assert seen["found"][status] == expected[:PAGE]
    counts = Counter(entry["folder_names"][0] for entry in before)
    assert {name: count for name, count in seen["folders"].items() if count} == counts
    assert "Here they are." in seen["text"]
    assert (seen["again"], seen["tree"]) == (None, ["Invoices"])
    assert seen["listed"] == ["Quarterly figures"]
    after = {entry["id"]: entry for entry in sim.truth(address)}
    assert (after[asked["id"]]["read"], after[asked["id"]]["folder_names"]) == (True, ["Invoices"])
    requests = sim.get("requests")
    assert [entry["status"] for entry in requests if entry["endpoint"] == "logout"] == [200]
