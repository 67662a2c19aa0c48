"""QuotaUsage: one quota meter per user of a project and one per project, checked before each call."""

from dataclasses import dataclass, field

from mailsim.clock import Clock
from mailsim.gmail import quota
from mailsim.gmail.quota import QuotaMeter
from mailsim.google.clients import GoogleClient
from mailsim.google.options import GoogleOptions
from mailsim.simulator import Quota


@dataclass
class QuotaUsage:
    options: GoogleOptions
    table: Quota
    clock: Clock
    users: dict[tuple[str, str], QuotaMeter] = field(default_factory=dict[tuple[str, str], QuotaMeter])
    projects: dict[str, QuotaMeter] = field(default_factory=dict[str, QuotaMeter])
    error_count: int = 0

    def spend(self, method_id: str, user: str, client: GoogleClient, concurrency: int) -> int:
        """Charge a call to the user's and the project's quota and return its units.

        Raise GmailError if a quota is exhausted.
        """
        units = quota.COST_TABLES[self.table][method_id]
        if self.table == "off":
            return units
        limit = self.options.concurrent_calls
        if limit and concurrency > limit:
            raise quota.too_many_concurrent_calls()
        now = self.clock.milliseconds()
        user_limit = self.options.user_units or quota.USER_UNITS[self.table]
        user_meter = self._get_meter(self.users, (client.project, user))
        project_meter = self._get_meter(self.projects, client.project)
        if user_meter.count_spent_units(now) + units > user_limit:
            self.error_count += 1
            free_at = user_meter.find_free_time(units, user_limit, now)
            raise quota.user_limit_exceeded(
                self.options.quota_shape, client.project_number, user_limit, free_at, self.error_count
            )
        if project_meter.count_spent_units(now) + units > self.options.project_units:
            raise quota.project_limit_exceeded(self.options.quota_shape, client.project_number)
        user_meter.spend(units, now)
        project_meter.spend(units, now)
        return units

    def _get_meter(self, meters: dict[quota.Key, QuotaMeter], key: quota.Key) -> QuotaMeter:
        meter = meters.get(key)
        if meter is None:
            meter = meters[key] = QuotaMeter()
        return meter
