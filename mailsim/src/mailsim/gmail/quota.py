"""Gmail's quotas: the cost per method, the limits, a meter, and the errors for exceeded quotas.

Quotas apply to a sliding window of 60 seconds on the simulator's clock. A rejected call costs nothing.
`quota_usage` keeps the meters and charges calls. Also the timestamp format of these errors.
"""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from mailsim.gmail.errors import GmailError, GmailErrorBody
from mailsim.google.options import PROJECT_UNITS, QuotaShape

Key = TypeVar("Key")
WINDOW_MS = 60_000
_STEP_MS = 100
USER_UNITS = {"new": 6_000, "old": 15_000}

OLD_COSTS: dict[str, int] = {
    "users.getProfile": 1,
    "users.watch": 100,
    "users.stop": 50,
    "users.history.list": 2,
    "users.labels.list": 1,
    "users.labels.get": 1,
    "users.labels.create": 5,
    "users.labels.update": 5,
    "users.labels.patch": 5,
    "users.labels.delete": 5,
    "users.messages.list": 5,
    "users.messages.get": 5,
    "users.messages.attachments.get": 5,
    "users.messages.modify": 5,
    "users.messages.trash": 5,
    "users.messages.untrash": 5,
    "users.messages.delete": 10,
    "users.messages.batchModify": 50,
    "users.messages.batchDelete": 50,
    "users.messages.insert": 25,
    "users.messages.import": 25,
    "users.messages.send": 100,
    "users.threads.list": 10,
    "users.threads.get": 10,
    "users.threads.modify": 10,
    "users.threads.trash": 10,
    "users.threads.untrash": 10,
    "users.threads.delete": 20,
    "users.drafts.list": 5,
    "users.drafts.get": 5,
    "users.drafts.create": 10,
    "users.drafts.update": 15,
    "users.drafts.delete": 10,
    "users.drafts.send": 100,
    "users.settings.getAutoForwarding": 1,
    "users.settings.getImap": 1,
    "users.settings.getPop": 1,
    "users.settings.getVacation": 1,
    "users.settings.getLanguage": 1,
    "users.settings.updateAutoForwarding": 5,
    "users.settings.updateImap": 5,
    "users.settings.updatePop": 100,
    "users.settings.updateVacation": 5,
    "users.settings.updateLanguage": 5,
    "users.settings.sendAs.list": 1,
    "users.settings.sendAs.get": 1,
    "users.settings.sendAs.create": 100,
    "users.settings.sendAs.delete": 5,
    "users.settings.sendAs.patch": 100,
    "users.settings.sendAs.update": 100,
    "users.settings.sendAs.verify": 100,
    "users.settings.forwardingAddresses.list": 1,
    "users.settings.forwardingAddresses.get": 1,
    "users.settings.forwardingAddresses.create": 100,
    "users.settings.forwardingAddresses.delete": 5,
    "users.settings.delegates.list": 1,
    "users.settings.delegates.get": 1,
    "users.settings.delegates.create": 100,
    "users.settings.delegates.delete": 5,
    "users.settings.filters.list": 1,
    "users.settings.filters.get": 1,
    "users.settings.filters.create": 5,
    "users.settings.filters.delete": 5,
    # Google publishes no costs for the methods below.
    "users.settings.sendAs.smimeInfo.list": 1,
    "users.settings.sendAs.smimeInfo.get": 1,
    "users.settings.sendAs.smimeInfo.insert": 5,
    "users.settings.sendAs.smimeInfo.delete": 5,
    "users.settings.sendAs.smimeInfo.setDefault": 5,
    "users.settings.cse.identities.list": 1,
    "users.settings.cse.identities.get": 1,
    "users.settings.cse.identities.create": 5,
    "users.settings.cse.identities.patch": 5,
    "users.settings.cse.identities.delete": 5,
    "users.settings.cse.keypairs.list": 1,
    "users.settings.cse.keypairs.get": 1,
    "users.settings.cse.keypairs.create": 5,
    "users.settings.cse.keypairs.enable": 5,
    "users.settings.cse.keypairs.disable": 5,
    "users.settings.cse.keypairs.obliterate": 5,
}
NEW_COSTS: dict[str, int] = OLD_COSTS | {
    "users.messages.get": 20,
    "users.messages.attachments.get": 20,
    "users.threads.get": 40,
    "users.drafts.get": 20,  # not published; assumed to cost the same as a message
}
COST_TABLES: dict[str, dict[str, int]] = {"new": NEW_COSTS, "old": OLD_COSTS, "off": NEW_COSTS}


@dataclass(slots=True)
class QuotaMeter:
    """Units spent in the last minute, with a resolution of a tenth of a second."""

    spent: int = 0
    steps: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])

    def count_spent_units(self, now_ms: int) -> int:
        oldest = (now_ms - WINDOW_MS) // _STEP_MS
        while self.steps and self.steps[0][0] <= oldest:
            self.spent -= self.steps.popleft()[1]
        return self.spent

    def spend(self, units: int, now_ms: int) -> None:
        step = now_ms // _STEP_MS
        self.spent += units
        if self.steps and self.steps[-1][0] == step:
            units += self.steps.pop()[1]
        self.steps.append((step, units))

    def find_free_time(self, units: int, limit: int, now_ms: int) -> int:
        """Find the time, in milliseconds, when `units` more will fit."""
        excess = self.count_spent_units(now_ms) + units - limit
        for step, spent in self.steps:
            excess -= spent
            if excess <= 0:
                return (step + 1) * _STEP_MS + WINDOW_MS
        return now_ms + WINDOW_MS


def user_limit_exceeded(
    shape: QuotaShape, project_number: str, limit: int, free_at_ms: int, turn: int
) -> GmailError:
    """The user's quota is exhausted.

    Google reports this as 403 or as 429; `mixed` alternates.
    """
    chosen = shape if shape != "mixed" else ("403", "429-retry-after", "429", "403-short")[turn % 4]
    quota = _format_quota_message("Queries per minute per user", project_number)
    details = (_make_limit_info("QueriesPerMinutePerUser", project_number, limit),)
    match chosen:
        case "403":
            error_body = GmailErrorBody(
                403, "rateLimitExceeded", quota, domain="usageLimits", details=details
            )
        case "403-short":
            error_body = GmailErrorBody(
                403, "userRateLimitExceeded", "User Rate Limit Exceeded", domain="usageLimits"
            )
        case "429":
            error_body = GmailErrorBody(
                429, "rateLimitExceeded", quota, domain="usageLimits", details=details
            )
        case _:
            text = f"User-rate limit exceeded.  Retry after {format_timestamp(free_at_ms)}"
            error_body = GmailErrorBody(429, "userRateLimitExceeded", text, domain="usageLimits")
    return GmailError(error_body)


def project_limit_exceeded(shape: QuotaShape, project_number: str) -> GmailError:
    quota = _format_quota_message("Queries per minute", project_number)
    details = (_make_limit_info("QueriesPerMinute", project_number, PROJECT_UNITS),)
    code = 429 if shape.startswith("429") else 403
    return GmailError(GmailErrorBody(code, "rateLimitExceeded", quota, domain="usageLimits", details=details))


def too_many_concurrent_calls() -> GmailError:
    text = "Too many concurrent requests for user"
    return GmailError(GmailErrorBody(429, "rateLimitExceeded", text, domain="usageLimits"))


def daily_limit_exceeded() -> GmailError:
    return GmailError(GmailErrorBody(403, "dailyLimitExceeded", "Daily Limit Exceeded", domain="usageLimits"))


def format_timestamp(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


def _format_quota_message(limit: str, project_number: str) -> str:
    return (
        f"Quota exceeded for quota metric 'Queries' and limit '{limit}' of service 'gmail.googleapis.com' "
        f"for consumer 'project_number:{project_number}'."
    )


def _make_limit_info(limit: str, project_number: str, value: int) -> dict[str, object]:
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "RATE_LIMIT_EXCEEDED",
        "domain": "googleapis.com",
        "metadata": {
            "consumer": f"projects/{project_number}",
            "quota_limit": limit,
            "quota_limit_value": str(value),
            "quota_location": "global",
            "quota_metric": "gmail.googleapis.com/queries",
            "service": "gmail.googleapis.com",
        },
    }
