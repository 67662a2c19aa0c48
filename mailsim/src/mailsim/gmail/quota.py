"""What a call costs and what a user or a project may spend: the tables of Google's quota page, and the
meters.

A window of 60 seconds moves with the simulator's clock. A refused call costs nothing.
"""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from mailsim.gmail.errors import GmailError, GmailErrorDetails
from mailsim.google.options import PROJECT_UNITS, QuotaShape

Key = TypeVar("Key")
WINDOW_MS = 60_000
_STEP_MS = 100
USER_UNITS = {"new": 6_000, "old": 15_000}

OLD: dict[str, int] = {
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
}
NEW: dict[str, int] = OLD | {
    "users.messages.get": 20,
    "users.messages.attachments.get": 20,
    "users.threads.get": 40,
    "users.drafts.get": 20,  # not published; a draft is read like a message
}
TABLES: dict[str, dict[str, int]] = {"new": NEW, "old": OLD, "off": NEW}


@dataclass(slots=True)
class QuotaMeter:
    """Units spent in the last minute, counted in steps of a tenth of a second."""

    spent: int = 0
    steps: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])

    def in_window(self, now_ms: int) -> int:
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

    def free_at(self, units: int, limit: int, now_ms: int) -> int:
        """When `units` more would fit, in milliseconds."""
        excess = self.in_window(now_ms) + units - limit
        for step, spent in self.steps:
            excess -= spent
            if excess <= 0:
                return (step + 1) * _STEP_MS + WINDOW_MS
        return now_ms + WINDOW_MS


def over_user(shape: QuotaShape, project_number: str, limit: int, free_at_ms: int, turn: int) -> GmailError:
    """The user's minute is used up. The same condition is seen with 403 and with 429, so `mixed` takes
    turns.
    """
    chosen = shape if shape != "mixed" else ("403", "429-retry-after", "429", "403-short")[turn % 4]
    quota = _quota_text("Queries per minute per user", project_number)
    details = (_limit_detail("QueriesPerMinutePerUser", project_number, limit),)
    match chosen:
        case "403":
            fault = GmailErrorDetails(403, "rateLimitExceeded", quota, domain="usageLimits", details=details)
        case "403-short":
            fault = GmailErrorDetails(
                403, "userRateLimitExceeded", "User Rate Limit Exceeded", domain="usageLimits"
            )
        case "429":
            fault = GmailErrorDetails(429, "rateLimitExceeded", quota, domain="usageLimits", details=details)
        case _:
            text = f"User-rate limit exceeded.  Retry after {zulu(free_at_ms)}"
            fault = GmailErrorDetails(429, "userRateLimitExceeded", text, domain="usageLimits")
    return GmailError(fault)


def over_project(shape: QuotaShape, project_number: str) -> GmailError:
    quota = _quota_text("Queries per minute", project_number)
    details = (_limit_detail("QueriesPerMinute", project_number, PROJECT_UNITS),)
    code = 429 if shape.startswith("429") else 403
    return GmailError(
        GmailErrorDetails(code, "rateLimitExceeded", quota, domain="usageLimits", details=details)
    )


def too_concurrent() -> GmailError:
    text = "Too many concurrent requests for user"
    return GmailError(GmailErrorDetails(429, "rateLimitExceeded", text, domain="usageLimits"))


def daily_limit() -> GmailError:
    return GmailError(
        GmailErrorDetails(403, "dailyLimitExceeded", "Daily Limit Exceeded", domain="usageLimits")
    )


def zulu(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


def _quota_text(limit: str, project_number: str) -> str:
    return (
        f"Quota exceeded for quota metric 'Queries' and limit '{limit}' of service 'gmail.googleapis.com' "
        f"for consumer 'project_number:{project_number}'."
    )


def _limit_detail(limit: str, project_number: str, value: int) -> dict[str, object]:
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
