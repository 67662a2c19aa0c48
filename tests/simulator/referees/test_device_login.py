"""Device code, refresh and application sign-ins with @azure/msal-node and the m365 CLI, unmodified."""

import json
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

import pytest

from simulator.driver import Simulation
from simulator.referees.referee import Prepare

pytestmark = pytest.mark.soak

WAIT_SECONDS = 300
MSAL_NODE = """
import { ConfidentialClientApplication, PublicClientApplication } from "@azure/msal-node";

const [clientId, secret, base, tenant, control, address] = process.argv.slice(2);
const authority = `${base}/${tenant}`;
const knownAuthorities = [new URL(base).host];
const device = new PublicClientApplication({ auth: { clientId, authority, knownAuthorities } });
const scopes = ["User.Read", "Mail.Read"];
let seen;
const first = await device.acquireTokenByDeviceCode({
  scopes,
  deviceCodeCallback: async (code) => {
    seen = code;
    await fetch(`${control}/device-codes/${code.userCode}`, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ address }) });
  },
});
const account = first.account;
const cached = await device.acquireTokenSilent({ scopes, account });
const renewed = await device.acquireTokenSilent({ scopes, account, forceRefresh: true });
const daemon = new ConfidentialClientApplication(
  { auth: { clientId, authority, knownAuthorities, clientSecret: secret } });
const application = await daemon.acquireTokenByClientCredential(
  { scopes: ["https://graph.microsoft.com/.default"] });
const list = async (token, whose) => {
  const response = await fetch(
    `${base}/v1.0/${whose}/messages?$top=500&$select=id`, { headers: { authorization: `Bearer ${token}` } });
  return (await response.json()).value.length;
};
console.log(JSON.stringify({
  username: account.username, tenant: account.tenantId, interval: seen.interval, uri: seen.verificationUri,
  cached: cached.accessToken === first.accessToken, renewed: renewed.accessToken !== first.accessToken,
  delegated: await list(renewed.accessToken, "me"),
  application: await list(application.accessToken, `users/${address}`),
}));
"""


def register_public_client(sim: Simulation) -> dict[str, Any]:
    application = sim.post("applications", provider="outlook", name="Device")
    sim.control.patch(f"microsoft/applications/{application['client_id']}", json={"public": True})
    return application


def test_msal_node_signs_in_with_a_device_code_and_refreshes(
    sim: Simulation, node_referee: Prepare, address: str
):
    sim.create("outlook", address, messages=25)
    application = register_public_client(sim)
    arguments = [application["client_id"], application["client_secret"], sim.https, application["tenant"]]
    seen = node_referee(sim, "msal-node").node(MSAL_NODE, *arguments, sim.ready["control"], address)
    assert seen["username"] == address
    assert seen["tenant"] == application["tenant"]
    assert seen["uri"].endswith("devicelogin")
    assert seen["interval"] == 5
    assert (seen["cached"], seen["renewed"]) == (True, True)
    assert (seen["delegated"], seen["application"]) == (25, 25)


@contextmanager
def running_beside(run: Callable[[], str]) -> Generator[Callable[[], str]]:
    """Run a program in the background; yield a function that waits for its output."""
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(run)
        yield future.result


def wait_for_device_code(sim: Simulation) -> str:
    deadline = monotonic() + WAIT_SECONDS
    while not (waiting := sim.get("device-codes")):
        assert monotonic() < deadline, "the program asked for no device code"
        sleep(0.1)
    return waiting[0]["user_code"]


def test_the_m365_cli_signs_in_with_a_device_code(sim: Simulation, node_referee: Prepare, address: str):
    sim.create("outlook", address, messages=25)
    application = register_public_client(sim)
    cli = node_referee(sim, "cli-microsoft365")
    login = ("m365", "login", "--appId", application["client_id"], "--tenant", application["tenant"])
    with running_beside(lambda: cli.run(*login)) as wait:
        sim.post(f"device-codes/{wait_for_device_code(sim)}", address=address)
        wait()
    assert json.loads(cli.run("m365", "status"))["connectedAs"] == address
    listed = json.loads(cli.run("m365", "outlook", "message", "list", "--folderName", "Inbox"))
    inbox = [entry for entry in sim.truth(address) if entry["keys"] == ["inbox"]]
    assert {message["internetMessageId"] for message in listed} == {entry["message_id"] for entry in inbox}
    me = json.loads(cli.run("m365", "entra", "user", "get", "--userName", address))
    assert me["mail"] == address
