"""API operations on the organization: get and set the names by which suppliers address it."""

from postroom.api_types import OrganizationNames
from postroom.flow.access import organization_names as flow
from postroom.model import Scope
from postroom.store import organizations
from postroom.web.api.operations import ApiCall, NoParameters, Operation


async def get_organization_names(call: ApiCall[NoParameters, NoParameters, None]) -> OrganizationNames:
    """Get the names by which suppliers address the organization."""
    async with call.transaction() as connection:
        return OrganizationNames(await organizations.list_names(connection))


async def set_organization_names(
    call: ApiCall[NoParameters, NoParameters, OrganizationNames],
) -> OrganizationNames:
    """Replace the names. An invoice addressed to any other name then needs review."""
    caller = call.caller
    async with call.transaction() as connection:
        names = await flow.set_names(connection, caller.organization, call.body.names, actor=caller.actor)
    return OrganizationNames(names)


OPERATIONS = [
    Operation("GET", "/organization/names", get_organization_names, Scope.READ, "Documents"),
    Operation("POST", "/organization/names", set_organization_names, Scope.ORGANIZATION, "Documents"),
]
