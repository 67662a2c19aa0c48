"""Holds every answer that a test caused against the provider's published description of it."""

from collections.abc import Callable
from typing import Any

from simulator import conformance_google
from simulator.driver import Simulation

PROVIDERS: dict[str, Callable[[dict[str, Any]], list[str]]] = {"gmail": conformance_google.problems}


def record(simulation: Simulation) -> None:
    simulation.control.put("requests", json={"bodies": True})


def check(simulation: Simulation) -> int:
    """Fails when an answer is not what the provider's description allows. Returns how many were looked at."""
    looked, wrong = 0, []
    for exchange in simulation.get("requests", limit=10_000):
        problems = PROVIDERS.get(exchange["provider"])
        recorded = "request_headers" in exchange or "response_headers" in exchange
        if problems is not None and recorded:
            looked += 1
            wrong += [f"{exchange['method']} {exchange['path']}: {problem}" for problem in problems(exchange)]
    assert not wrong, "\n".join(wrong[:20])
    return looked
