"""The API operation that describes the caller's own API key."""

from uuid import UUID

from postroom.api_types import ApiKeyResource
from postroom.flow.access.api_keys import ACTOR_PREFIX
from postroom.model import Scope
from postroom.store import api_keys
from postroom.web.api.operations import ApiCall, NoParameters, Operation, not_found, require_found


async def get_api_key(call: ApiCall[NoParameters, NoParameters, None]) -> ApiKeyResource:
    """Show the API key of this call: its scopes, when it expires, and whether its calls are recorded."""
    actor = call.caller.actor
    if not actor.startswith(ACTOR_PREFIX):
        raise not_found("API key")
    async with call.transaction() as connection:
        key = require_found(await api_keys.get(connection, UUID(actor.removeprefix(ACTOR_PREFIX))), "API key")
    return ApiKeyResource(
        key.id, key.name, key.scopes, key.created_at, key.expires_at, records_calls=key.records_calls
    )


OPERATIONS = [Operation("GET", "/key", get_api_key, Scope.READ, "API keys")]
