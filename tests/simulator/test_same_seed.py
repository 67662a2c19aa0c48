"""Runs with the same seed and calls: the same ids and bytes, those of writes, pushes and codes included."""

from contextlib import ExitStack
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2

from simulator.driver import Simulation, running
from simulator.microsoft_user import MicrosoftUsers
from simulator.subscribing import subscribe
from simulator.webhook import Webhook, webhook

ADDRESS = "again@example.com"
BACK = "https://app.example/back"


def written(sim: Simulation, hook: Webhook) -> dict[str, Any]:
    """What a client saw: a draft, its bytes, a subscription with its handshake and push, a refusal."""
    with ExitStack() as stack:
        user = MicrosoftUsers(stack).connect(sim, ADDRESS, "Mail.ReadWrite", messages=3)
        made = subscribe(user, hook)
        draft = user.post("messages", {"subject": "Once", "toRecipients": []})
        pushed = hook.next().value
        refusal = user.refused(400, "messages/nonsense")
        raw = user.ask("GET", f"messages/{draft['id']}/$value").content
        draft = {name: value for name, value in draft.items() if not name.startswith("@odata.context")}
        return {
            "draft": draft,
            "raw": raw,
            "subscription": made["id"],
            "handshakes": [parse_qs(urlsplit(one).query) for one in hook.handshakes],
            "pushed": pushed,
            "refusal": refusal,
        }


def signed_in(sim: Simulation) -> dict[str, Any]:
    """A code, what it is good for, and a refusal of the token endpoint."""
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
        refused = {**again.json(), "error_uri": ""}  # it names the port
        return {
            "back": back, "cookies": dict(answer.cookies), "refresh": tokens["refresh_token"],
            "refused": refused, "trace": again.headers["x-ms-request-id"],
        }  # fmt: skip


def seen(seed: str) -> dict[str, Any]:
    options = ("--seed", seed, "--clock", "manual", "--start", "2026-03-02T09:00:00Z")
    with running(*options) as sim, webhook() as hook:
        return {**written(sim, hook), **signed_in(sim)}


def test_ids_and_bytes_depend_on_the_seed_and_the_calls_only():
    first, second, other = seen("7"), seen("7"), seen("8")
    assert first == second
    assert [name for name in first if first[name] == other[name]] == []
