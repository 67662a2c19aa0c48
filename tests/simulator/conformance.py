"""Holds every answer that a test caused against the provider's published description of it."""

from collections.abc import Callable
from typing import Any

import httpx2

from simulator import conformance_google, conformance_microsoft

PROVIDERS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "gmail": conformance_google.problems,
    "outlook": conformance_microsoft.problems,
}


def record(control: httpx2.Client) -> None:
    control.put("requests", json={"bodies": True})


def check(control: httpx2.Client) -> int:
    """Fails when an answer is not what the provider's description allows. Returns how many were looked at."""
    looked, wrong = 0, []
    for exchange in control.get("requests", params={"limit": 10_000}).json():
        problems = PROVIDERS.get(exchange["provider"])
        recorded = "request_headers" in exchange or "response_headers" in exchange
        if problems is not None and recorded:
            looked += 1
            wrong += [f"{exchange['method']} {exchange['path']}: {problem}" for problem in problems(exchange)]
    for push in control.get("pushes", params={"limit": 10_000, "provider": "outlook"}).json():
        looked += 1
        wrong += [f"push to {push['path']}: {one}" for one in conformance_microsoft.push_problems(push)]
    assert not wrong, "\n".join(wrong[:20])
    return looked
