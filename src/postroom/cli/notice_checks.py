"""The check of notices in `postroom doctor`: destinations that fail."""

from postroom.cli.doctor_check import DoctorCheck, DoctorCheckState
from postroom.config import Settings
from postroom.model import OrganizationId
from postroom.store import notices
from postroom.wiring.database import open_process_database


async def check_notices(settings: Settings, url: str) -> DoctorCheck | None:
    """Report destinations that fail. None if there are no destinations. Sends nothing."""
    async with (
        open_process_database(settings, url, "doctor") as opened,
        opened.transaction(OrganizationId(settings.organization)) as connection,
    ):
        count, failing = await notices.count(connection), await notices.list_failing(connection)
    if not count:
        return None
    if not failing:
        return DoctorCheck("notices", DoctorCheckState.OK, f"destinations: {count}, none failing")
    found = "; ".join(
        f"{each.medium} has failed since {each.failing_since:%Y-%m-%d %H:%M} UTC: {each.last_error}"
        for each in failing
    )
    remedy = "Fix the destination, then run `postroom notices test`; see docs/how-to/notices.md."
    return DoctorCheck("notices", DoctorCheckState.WARN, found, remedy)
