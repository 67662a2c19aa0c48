"""Who has spent what: a meter for each user of a project and one for each project, checked before a call
runs.
"""

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
    refusals: int = 0

    def spend(self, method_id: str, user: str, client: GoogleClient, width: int) -> int:
        """The units of a call, taken from the user's and the project's minute; raises Refusal when one is
        used up.
        """
        units = quota.TABLES[self.table][method_id]
        if self.table == "off":
            return units
        limit = self.options.concurrent_calls
        if limit and width > limit:
            raise quota.too_concurrent()
        now = self.clock.milliseconds()
        user_limit = self.options.user_units or quota.USER_UNITS[self.table]
        user_meter = self._meter(self.users, (client.project, user))
        project_meter = self._meter(self.projects, client.project)
        if user_meter.in_window(now) + units > user_limit:
            self.refusals += 1
            free_at = user_meter.free_at(units, user_limit, now)
            raise quota.over_user(
                self.options.quota_shape, client.project_number, user_limit, free_at, self.refusals
            )
        if project_meter.in_window(now) + units > self.options.project_units:
            raise quota.over_project(self.options.quota_shape, client.project_number)
        user_meter.spend(units, now)
        project_meter.spend(units, now)
        return units

    def _meter(self, meters: dict[quota.Key, QuotaMeter], key: quota.Key) -> QuotaMeter:
        meter = meters.get(key)
        if meter is None:
            meter = meters[key] = QuotaMeter()
        return meter
