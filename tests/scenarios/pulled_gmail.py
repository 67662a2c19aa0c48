"""Gmail whose notifications are pulled from a subscription of the simulator."""

import json

from flow.simulated_world import TOPIC
from simulator.driver import Simulation

SUBSCRIPTION = "projects/mailsim/subscriptions/pulled"


def prepare_pull(sim: Simulation) -> dict[str, str]:
    """Create the subscription and the key; the settings that make workers pull, and no public URL."""
    sim.post("google/subscriptions", name=SUBSCRIPTION, topic=TOPIC)
    return {
        "pubsub_delivery": "pull",
        "pubsub_subscription": SUBSCRIPTION,
        "pubsub_url": sim.http,
        "pubsub_key": json.dumps(sim.post("google/service-accounts", name="puller")),
    }


def to_environment(settings: dict[str, str]) -> dict[str, str]:
    return {f"POSTROOM_{name.upper()}": value for name, value in settings.items()} | {
        "POSTROOM_PUBLIC_URL": ""
    }


def count_backlog(sim: Simulation) -> int:
    """How many notifications wait or are not acknowledged."""
    return sim.get("google/backlog", name=SUBSCRIPTION)["count"]
