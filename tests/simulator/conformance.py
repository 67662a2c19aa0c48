"""Checks every recorded response of a test against the provider's published description."""

import re
from collections.abc import Callable
from typing import Any

import httpx2

from simulator import conformance_google, conformance_microsoft, conformance_sign_in

Check = Callable[[dict[str, Any]], list[str]]
PROVIDERS: dict[str, tuple[Check, ...]] = {
    "gmail": (conformance_google.list_problems, conformance_sign_in.google),
    "outlook": (conformance_microsoft.list_problems, conformance_sign_in.entra),
}
PUSHES: dict[str, Check] = {
    "gmail": conformance_google.list_push_problems,
    "outlook": conformance_microsoft.list_push_problems,
}


def record(control: httpx2.Client) -> None:
    control.put("requests", json={"bodies": True})


def check(control: httpx2.Client) -> int:
    """Fail if a response violates the provider's description. Return how many were checked."""
    checked = 0
    wrong: list[str] = []
    for exchange in control.get("requests", params={"limit": 10_000}).json():
        exchange["path"] = re.sub("/{2,}", "/", exchange["path"])  # parsedmarc repeats a slash
        checks = PROVIDERS.get(exchange["provider"], ())
        recorded = "request_headers" in exchange or "response_headers" in exchange
        if checks and recorded and _is_whole(exchange):
            checked += 1
            problems = [problem for check in checks for problem in check(exchange)]
            wrong += [f"{exchange['method']} {exchange['path']}: {problem}" for problem in problems]
    for push in control.get("pushes", params={"limit": 10_000}).json():
        checked += 1
        wrong += [f"push to {push['path']}: {problem}" for problem in PUSHES[push["provider"]](push)]
    assert not wrong, "\n".join(wrong[:20])
    return checked


def _is_whole(exchange: dict[str, Any]) -> bool:
    """Whether the log has the whole response. It cuts large bodies, and drops the oldest ones."""
    length = dict(exchange.get("response_headers", [])).get("content-length", "0")
    return exchange["method"] == "HEAD" or len(exchange.get("response_body", "").encode()) >= int(length)
