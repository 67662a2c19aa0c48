"""One line per common client that points it at a running simulator, made from the ready line.

Tests run every line against the simulator. Names such as `credentials` are what the user's code has anyway.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

_PYTHON_PROXY = "HTTPS_PROXY={proxy} HTTPLIB2_CA_CERTS={ca} REQUESTS_CA_BUNDLE={ca}"
_CURL = 'curl --proxy {proxy} --cacert {ca} --oauth2-bearer "$TOKEN" '
_GRAPH_CLIENT = 'Client.init({{ authProvider, baseUrl: "{https}/", customHosts: new Set(["{host}"]) }})'
_MSAL = (
    'ConfidentialClientApplication("{client_id}", client_credential="{client_secret}", '
    'authority="{https}/{tenant}", instance_discovery=False, verify="{ca}")'
)
_AZURE_IDENTITY = (
    'ClientSecretCredential("{tenant}", "{client_id}", "{client_secret}", authority="{https}", '
    'disable_instance_discovery=True, connection_verify="{ca}")'
)
_MSAL_NODE = (
    'new ConfidentialClientApplication({{ auth: {{ clientId: "{client_id}", '
    'clientSecret: "{client_secret}", authority: "{https}/{tenant}", knownAuthorities: ["{netloc}"] }} }})'
)
_M365 = (
    "HTTPS_PROXY={proxy} NODE_EXTRA_CA_CERTS={ca} m365 login --authType secret "
    "--appId {client_id} --tenant {tenant} --secret {client_secret}"
)
_LINES: Final = {
    "curl": _CURL + "https://graph.microsoft.com/v1.0/me/messages",
    "google-api-python-client": (
        'build("gmail", "v1", credentials=credentials, client_options={{"api_endpoint": "{http}"}})'
    ),
    "@googleapis/gmail": 'gmail({{ version: "v1", auth, rootUrl: "{http}/" }})',
    "ezgmail, simplegmail": _PYTHON_PROXY + " python program.py",
    "lieer": _PYTHON_PROXY + " gmi sync",
    "msgraph-sdk for Python": 'request_adapter.base_url = "{http}/v1.0"',
    "@microsoft/microsoft-graph-client": _GRAPH_CLIENT,
    "O365": _PYTHON_PROXY + " python program.py",
    "msal for Python": _MSAL,
    "azure-identity for Python": _AZURE_IDENTITY,
    "@azure/msal-node": _MSAL_NODE,
    "m365 CLI": _M365,
}


@dataclass(frozen=True, slots=True)
class ClientLine:
    client: str
    line: str


def list_client_lines(ready: Mapping[str, Any]) -> list[ClientLine]:
    """List the lines for a simulator with this ready line."""
    https_url: str = ready["https"]
    https = urlsplit(https_url)
    client: Mapping[str, str] = ready["clients"]["outlook"]
    values: dict[str, Any] = {**ready, **client, "host": https.hostname, "netloc": https.netloc}
    return [ClientLine(client, line.format_map(values)) for client, line in _LINES.items()]


def explain_first_steps(ready: Mapping[str, Any]) -> str:
    """Say how to create a mailbox and get a token, to a user of a simulator without mailboxes."""
    post, address = "curl --json", '"address": "ann@example.com"'
    return f"""\
mailsim is ready; {ready["http"]}/ shows its state. Create a mailbox, then get a token for it:
  {post} '{{"provider": "gmail", {address}, "messages": 200}}' {ready["control"]}/mailboxes
  {post} '{{{address}}}' {ready["control"]}/google/tokens
"""


def explain_clients(ready: Mapping[str, Any]) -> str:
    """Say how to point each client at the simulator."""
    lines = "".join(f"\n  {entry.client}\n    {entry.line}" for entry in list_client_lines(ready))
    return f"""\
Point a client at it. On Node.js, set NODE_EXTRA_CA_CERTS={ready["ca"]}; httplib2 needs PySocks.{lines}
"""
