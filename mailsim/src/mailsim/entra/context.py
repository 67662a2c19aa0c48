"""EntraContext: what all Entra endpoints share. Also helpers for base URLs and trace IDs."""

import uuid
from dataclasses import dataclass

from starlette.requests import Request

from mailsim.entra.directory import EntraDirectory
from mailsim.entra.grants import EntraGrants
from mailsim.graph.options import MicrosoftOptions
from mailsim.simulator import Simulator


@dataclass(frozen=True, slots=True)
class EntraContext:
    """The simulator, the directory, the issued grants and the options of simulated Entra."""

    sim: Simulator
    directory: EntraDirectory
    grants: EntraGrants
    options: MicrosoftOptions


def base_url(request: Request) -> str:
    """Return scheme and host of the request.

    Responses name the host that the client used, so that redirected host names keep working.
    """
    return f"{request.url.scheme}://{request.headers.get('host') or request.url.netloc}"


def guid_or_new(entra: EntraContext, text: str | None = None) -> str:
    """Return `text` if it is a GUID, or a new trace ID."""
    try:
        return str(uuid.UUID(text or ""))
    except ValueError:
        return entra.sim.registry.new_guid("trace")
