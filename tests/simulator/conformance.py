"""Holds every answer that a test caused against the provider's published description of it."""

from collections.abc import Callable
from typing import Any

import httpx2

from simulator import conformance_google, conformance_microsoft, conformance_sign_in

Check = Callable[[dict[str, Any]], list[str]]
PROVIDERS: dict[str, tuple[Check, ...]] = {
    "gmail": (conformance_google.problems, conformance_sign_in.google),
    "outlook": (conformance_microsoft.problems, conformance_sign_in.entra),
}
PUSHES: dict[str, Check] = {
    "gmail": conformance_google.push_problems,
    "outlook": conformance_microsoft.push_problems,
}


def record(control: httpx2.Client) -> None:
    control.put("requests", json={"bodies": True})


def check(control: httpx2.Client) -> int:
    """Fails when an answer is not what the provider's description allows. Returns how many were looked at."""
    looked, wrong = 0, []
    for exchange in control.get("requests", params={"limit": 10_000}).json():
        checks = PROVIDERS.get(exchange["provider"], ())
        recorded = "request_headers" in exchange or "response_headers" in exchange
        if checks and recorded:
            looked += 1
            found = [problem for check in checks for problem in check(exchange)]
            wrong += [f"{exchange['method']} {exchange['path']}: {problem}" for problem in found]
    for push in control.get("pushes", params={"limit": 10_000}).json():
        looked += 1
        wrong += [f"push to {push['path']}: {problem}" for problem in PUSHES[push["provider"]](push)]
    assert not wrong, "\n".join(wrong[:20])
    return looked
