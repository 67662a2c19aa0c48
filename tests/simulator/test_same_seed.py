"""The same seed and calls give the same mail, ids and tokens, including those of writes and pushes."""

from collections.abc import Generator
from contextlib import ExitStack
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from simulator.driver import Simulation, launch, running
from simulator.graph_push_receiver import GraphPushReceiver, receive_pushes
from simulator.microsoft_user import MicrosoftUsers
from simulator.subscription_requests import subscribe

ADDRESS = "again@example.com"
BACK = "https://app.example/back"


def written(sim: Simulation, receiver: GraphPushReceiver) -> dict[str, Any]:
    """Return what a client sees: a draft, its bytes, a subscription with handshake and push, an error."""
    with ExitStack() as stack:
        user = MicrosoftUsers(stack).connect(sim, ADDRESS, "Mail.ReadWrite", messages=3)
        made = subscribe(user, receiver)
        draft = user.post("messages", {"subject": "Once", "toRecipients": []})
        pushed = receiver.next().value
        refusal = user.expect_error(400, "messages/nonsense")
        raw = user.request("GET", f"messages/{draft['id']}/$value").content
        draft = {name: value for name, value in draft.items() if not name.startswith("@odata.context")}
        return {
            "draft": draft,
            "raw": raw,
            "subscription": made["id"],
            "handshakes": [parse_qs(urlsplit(one).query) for one in receiver.handshakes],
            "pushed": pushed,
            "refusal": refusal,
        }


def signed_in(sim: Simulation) -> dict[str, Any]:
    """Return an authorization code, its tokens, and an error of the token endpoint."""
    client = sim.ready["clients"]["outlook"]
    sim.control.patch("microsoft/options", json={"auto_consent": True})
    with httpx2.Client(base_url=sim.http, trust_env=False) as http:
        asked = {
            "client_id": client["client_id"], "response_type": "code", "redirect_uri": BACK,
            "scope": "offline_access Mail.Read", "login_hint": ADDRESS,
        }  # fmt: skip
        answer = http.get("/common/oauth2/v2.0/authorize", params=asked)
        back = parse_qs(urlsplit(answer.headers["location"]).query)
        form = {"grant_type": "authorization_code", "redirect_uri": BACK, "code": back["code"][0]}
        form |= {"client_id": client["client_id"], "client_secret": client["client_secret"]}
        tokens = http.post("/common/oauth2/v2.0/token", data=form).json()
        again = http.post("/common/oauth2/v2.0/token", data=form)
        refused = {**again.json(), "error_uri": ""}  # it contains the port
        return {
            "back": back, "cookies": dict(answer.cookies), "refresh": tokens["refresh_token"],
            "refused": refused, "trace": again.headers["x-ms-request-id"],
        }  # fmt: skip


@pytest.fixture(scope="module")
def runs() -> Generator[list[Simulation]]:
    """Start two simulators with the same seed and one with another."""
    with ExitStack() as stack:
        simulations = []
        for seed in ("7", "7", "8"):
            launcher = launch()  # for a hash seed of its own
            stack.callback(launcher.end)
            options = ("--clock", "manual", "--start", "2026-03-02T09:00:00Z", "--seed", seed)
            simulations.append(stack.enter_context(running(*options, launcher=launcher)))
        yield simulations


def test_ids_and_bytes_depend_only_on_seed_and_calls(runs):
    seen = []
    for sim in runs:
        with receive_pushes() as receiver:
            seen.append({**written(sim, receiver), **signed_in(sim)})
    first, second, other = seen
    assert first == second
    assert [name for name in first if first[name] == other[name]] == []


def test_mail_depends_only_on_seed_and_calls(runs):
    seen = []
    for sim in runs:
        for provider in ("gmail", "outlook"):
            sim.create(provider, f"{provider}@example.com", 40, kinds=["plain", "html", "attachment"])
        sim.deliver("gmail@example.com", kind="plain")
        sim.move_clock(60)
        sim.deliver("outlook@example.com", kind="html", count=3)
        seen.append([sim.truth(f"{provider}@example.com") for provider in ("gmail", "outlook")])
    assert seen[0] == seen[1]
    assert [message["sha256"] for message in seen[0][0]] != [message["sha256"] for message in seen[2][0]]


def test_clients_and_tokens_depend_only_on_seed_and_calls(runs):
    first, second, other = (sim.ready["clients"] for sim in runs)
    assert first == second != other
    for sim in runs:
        sim.create("gmail", "tokens@example.com")
    first, second, other = (
        sim.post("google/tokens", address="tokens@example.com")["access_token"] for sim in runs
    )
    assert first == second != other
