"""The lines that mailsim prints for clients which need an environment of their own."""

import json
from collections.abc import Callable

import pytest

from mailsim.client_lines import list_client_lines
from simulator.driver import Simulation
from simulator.google_user import FULL, MODIFY, READONLY, SCOPE
from simulator.referees.google_files import (
    make_authorized_user,
    make_client_secret,
    make_oauth2client_credentials,
)
from simulator.referees.referee import Prepare, Referee, require_notmuch

pytestmark = pytest.mark.soak

MESSAGES = 5


def run_in_shell(program: Referee, line: str) -> str:
    """Run a printed line in a shell that knows nothing else of the simulator."""
    known = {name: program.variables[name] for name in ("PATH", "HOME", "LANG", "TZ")}
    known |= {name: value for name, value in program.variables.items() if name.startswith("NOTMUCH")}
    return Referee(program.programs, program.home, known).run("bash", "-c", line)


def run_googleapis(sim: Simulation, address: str, line: str, prepare: Prepare) -> int:
    token = sim.post("google/tokens", address=address)["access_token"]
    source = f"""
import {{ auth as google, gmail }} from "@googleapis/gmail";
const auth = new google.OAuth2();
auth.setCredentials({{ access_token: process.argv[2] }});
const client = {line};
console.log((await client.users.messages.list({{ userId: "me" }})).data.messages.length);
"""
    return prepare(sim, "googleapis-gmail").node(source, token)


def run_graph_client(sim: Simulation, address: str, line: str, prepare: Prepare) -> int:
    token = sim.post("microsoft/tokens", address=address)["access_token"]
    source = f"""
import {{ Client }} from "@microsoft/microsoft-graph-client";
const authProvider = (done) => done(null, process.argv[2]);
const client = {line};
console.log((await client.api("/me/messages").get()).value.length);
"""
    return prepare(sim, "graph-client").node(source, token)


def run_msal_node(sim: Simulation, address: str, line: str, prepare: Prepare) -> int:
    source = f"""
import {{ ConfidentialClientApplication }} from "@azure/msal-node";
const application = {line};
const scopes = ["https://graph.microsoft.com/.default"];
const {{ accessToken }} = await application.acquireTokenByClientCredential({{ scopes }});
const response = await fetch(process.argv[2], {{ headers: {{ authorization: `Bearer ${{accessToken}}` }} }});
console.log((await response.json()).value.length);
"""
    return prepare(sim, "msal-node").node(source, f"{sim.https}/v1.0/users/{address}/messages")


def run_simplegmail(sim: Simulation, address: str, line: str, prepare: Prepare) -> int:
    program = prepare(sim, "simplegmail")
    program.write_json("client_secret.json", make_client_secret(sim))
    scopes = (MODIFY, SCOPE + "settings.basic")
    program.write_json("gmail_token.json", make_authorized_user(sim, address, *scopes))
    source = "from simplegmail import Gmail\nprint(len(Gmail().get_messages()))\n"
    (program.home / "program.py").write_text(source, encoding="utf-8")
    count = int(run_in_shell(program, line))

    program = prepare(sim, "ezgmail")
    program.write_json("credentials.json", make_client_secret(sim))
    program.write_json("token.json", make_oauth2client_credentials(sim, address, FULL))
    source = "import ezgmail\nprint(sum(len(thread.messages) for thread in ezgmail.search('')))\n"
    (program.home / "program.py").write_text(source, encoding="utf-8")
    assert int(run_in_shell(program, line)) == count
    return count


def run_lieer(sim: Simulation, address: str, line: str, prepare: Prepare) -> int:
    require_notmuch()
    program = prepare(sim, "lieer")
    config = program.home / "notmuch-config"
    config.write_text(f"[database]\npath={program.home}\n[new]\ntags=new\n", encoding="utf-8")
    program.variables["NOTMUCH_CONFIG"] = str(config)
    program.run("notmuch", "new")
    program.run("gmi", "init", "--no-auth", address)
    scopes = (READONLY, SCOPE + "labels", MODIFY)
    program.write_json(".credentials.gmailieer.json", make_authorized_user(sim, address, *scopes))
    run_in_shell(program, line)
    return sum(1 for _ in (program.home / "mail/cur").iterdir())


def run_o365(sim: Simulation, address: str, line: str, prepare: Prepare) -> int:
    program = prepare(sim, "o365")
    client = sim.ready["clients"]["outlook"]
    source = f"""
from O365 import Account
account = Account(
    ({client["client_id"]!r}, {client["client_secret"]!r}), auth_flow_type="credentials",
    tenant_id={client["tenant"]!r}, main_resource={address!r},
)
account.authenticate()
print(len(list(account.mailbox().get_messages())))
"""
    (program.home / "program.py").write_text(source, encoding="utf-8")
    return int(run_in_shell(program, line).splitlines()[-1])


def run_m365(sim: Simulation, address: str, line: str, prepare: Prepare) -> int:
    program = prepare(sim, "cli-microsoft365")
    run_in_shell(program, line)
    listed = program.run("m365", "outlook", "message", "list", "--folderName", "Inbox", "--userName", address)
    return len(json.loads(listed))


Run = Callable[[Simulation, str, str, Prepare], int]
CLIENTS: dict[str, tuple[str, Run]] = {
    "@googleapis/gmail": ("gmail", run_googleapis),
    "ezgmail, simplegmail": ("gmail", run_simplegmail),
    "lieer": ("gmail", run_lieer),
    "@microsoft/microsoft-graph-client": ("outlook", run_graph_client),
    "O365": ("outlook", run_o365),
    "@azure/msal-node": ("outlook", run_msal_node),
    "m365 CLI": ("outlook", run_m365),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_printed_line_points_its_client_at_the_simulator(
    sim: Simulation, python_referee: Prepare, node_referee: Prepare, address: str, client: str
):
    provider, run = CLIENTS[client]
    sim.create(provider, address, messages=MESSAGES, spread=False)
    [line] = [entry.line for entry in list_client_lines(sim.ready) if entry.client == client]
    on_node = client.startswith("@") or client.endswith("CLI")
    assert run(sim, address, line, node_referee if on_node else python_referee) == MESSAGES
