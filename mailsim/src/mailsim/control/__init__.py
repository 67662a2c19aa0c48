"""The route table of the control API under /_sim, with which tests and people drive the simulator.

The handlers are in the modules of this package. Providers add their own endpoints.
"""

from starlette.routing import Route

from mailsim import provider_actions
from mailsim.control import device_codes, mailboxes, messages, schemas, simulation, truth
from mailsim.control.endpoint import STATE, ControlEndpoint
from mailsim.control.openapi import document_route
from mailsim.faults import Fault
from mailsim.simulator import Simulator

_BOX = "/mailboxes/{address}"
_MESSAGE = _BOX + "/messages/{message}"

ENDPOINTS = (
    ControlEndpoint("GET", "/", "Summarize the simulation", simulation.summary, schemas.SimulationSummary),
    ControlEndpoint("POST", "/reset", "Start a new simulation, without mailboxes", simulation.reset),
    ControlEndpoint(
        "GET",
        "/state",
        "Save the simulation: mailboxes, tokens, cursors, subscriptions, faults, clock",
        simulation.save_state,
        bytes,
        media=STATE,
    ),
    ControlEndpoint(
        "POST",
        "/state",
        "Replace the simulation by a saved one",
        simulation.load_state,
        mail=True,
        media=STATE,
    ),
    ControlEndpoint("GET", "/clock", "Show the clock", simulation.show_clock, schemas.ClockReading),
    ControlEndpoint(
        "POST",
        "/clock",
        "Move the clock forward",
        simulation.move_clock,
        schemas.ClockReading,
        schemas.ClockMove,
    ),
    ControlEndpoint(
        "POST", "/settle", "Wait until pending pushes are done", simulation.settle, schemas.ClockReading
    ),
    ControlEndpoint(
        "GET",
        "/applications",
        "List OAuth clients",
        simulation.list_applications,
        list[schemas.ApplicationInfo],
    ),
    ControlEndpoint(
        "POST",
        "/applications",
        "Register an OAuth client",
        simulation.register_application,
        schemas.ApplicationInfo,
        schemas.NewApplication,
        status=201,
    ),
    ControlEndpoint(
        "GET",
        "/device-codes",
        "List sign-ins of devices that wait for their user",
        device_codes.list_device_codes,
        list[schemas.DeviceSignInInfo],
    ),
    ControlEndpoint(
        "POST",
        "/device-codes/{user_code}",
        "Approve or decline the sign-in of a device, as its user does on the page",
        device_codes.decide_device_code,
        schemas.DeviceSignInInfo,
        schemas.DeviceDecision,
    ),
    ControlEndpoint(
        "GET", "/mailboxes", "List mailboxes", mailboxes.list_mailboxes, list[schemas.MailboxInfo]
    ),
    ControlEndpoint(
        "POST",
        "/mailboxes",
        "Create a mailbox with generated mail",
        mailboxes.create_mailbox,
        schemas.MailboxInfo,
        schemas.NewMailbox,
        status=201,
    ),
    ControlEndpoint(
        "GET",
        _BOX,
        "Show a mailbox with its folders or labels and its subscriptions",
        mailboxes.show_mailbox,
        schemas.MailboxDetails,
    ),
    ControlEndpoint("DELETE", _BOX, "Close a mailbox", mailboxes.close_mailbox),
    ControlEndpoint(
        "POST",
        _BOX + "/folders",
        "Add a folder or label",
        mailboxes.add_folder,
        schemas.FolderInfo,
        schemas.NewFolder,
        status=201,
    ),
    ControlEndpoint(
        "PATCH",
        _BOX + "/folders/{key}",
        "Rename a folder or label, or move a folder",
        mailboxes.change_folder,
        schemas.FolderInfo,
        schemas.FolderChange,
    ),
    ControlEndpoint("DELETE", _BOX + "/folders/{key}", "Delete a folder or label", mailboxes.delete_folder),
    ControlEndpoint(
        "GET",
        _BOX + "/truth",
        "List every message with IDs, folders, flags and digests, in pages, by ascending number",
        truth.truth,
        schemas.TruthPage,
        query=schemas.TruthQuery,
    ),
    ControlEndpoint(
        "POST",
        _BOX + "/messages",
        "Deliver a message byte for byte, or generate messages",
        messages.deliver,
        schemas.MessageRefs,
        schemas.NewMessages,
        schemas.DeliveryQuery,
        mail=True,
        status=201,
    ),
    ControlEndpoint("GET", _MESSAGE + "/raw", "Show the bytes of a message", messages.show_raw, bytes),
    ControlEndpoint(
        "POST",
        _MESSAGE + "/move",
        "Move a message to a folder; at Gmail to INBOX, SPAM, TRASH or a label",
        messages.move,
        schemas.AffectedCount,
        schemas.MoveDestination,
    ),
    ControlEndpoint(
        "POST",
        _MESSAGE + "/mark",
        "Set read, flag, importance or categories",
        messages.mark,
        schemas.AffectedCount,
        schemas.MessageStateChange,
    ),
    ControlEndpoint(
        "POST",
        _MESSAGE + "/label",
        "Add and remove Gmail labels",
        messages.label,
        schemas.AffectedCount,
        schemas.LabelChange,
    ),
    ControlEndpoint(
        "POST", _MESSAGE + "/trash", "Move a message to the trash", messages.trash, schemas.AffectedCount
    ),
    ControlEndpoint("DELETE", _MESSAGE, "Delete a message permanently", messages.delete),
    ControlEndpoint(
        "POST",
        _BOX + "/drafts",
        "Save a new draft",
        messages.save_draft,
        schemas.MessageRefs,
        mail=True,
        status=201,
    ),
    ControlEndpoint(
        "PUT",
        _MESSAGE,
        "Save a draft again (at Gmail under a new ID)",
        messages.edit_draft,
        schemas.MessageRefs,
        mail=True,
    ),
    ControlEndpoint("POST", _MESSAGE + "/send", "Send a draft", messages.send_draft, schemas.MessageRefs),
    ControlEndpoint(
        "POST",
        _BOX + "/revoke",
        "Revoke a user's grants",
        mailboxes.revoke_consent,
        schemas.AffectedCount,
        provider_actions.RevocationRequest,
    ),
    ControlEndpoint(
        "POST",
        _BOX + "/expire-tokens",
        "Expire the access tokens now",
        mailboxes.expire_tokens,
        schemas.AffectedCount,
        provider_actions.ExpiryRequest,
    ),
    ControlEndpoint(
        "POST",
        _BOX + "/expire-cursors",
        "Expire history IDs or delta links",
        mailboxes.expire_cursors,
        schemas.AffectedCount,
        provider_actions.ExpiryRequest,
    ),
    ControlEndpoint(
        "POST",
        _BOX + "/lifecycle",
        "Send a lifecycle event for the mailbox's subscriptions",
        mailboxes.send_lifecycle,
        schemas.AffectedCount,
        provider_actions.LifecycleRequest,
    ),
    ControlEndpoint(
        "GET", "/faults", "List scheduled faults", simulation.list_faults, list[schemas.FaultInfo]
    ),
    ControlEndpoint(
        "POST",
        "/faults",
        "Schedule a fault",
        simulation.add_fault,
        schemas.FaultInfo,
        Fault,
        status=201,
    ),
    ControlEndpoint("DELETE", "/faults", "Cancel all faults", simulation.clear_faults),
    ControlEndpoint("DELETE", "/faults/{number}", "Cancel a fault", simulation.remove_fault),
    ControlEndpoint(
        "GET",
        "/requests",
        "List requests to the providers, newest first",
        simulation.list_requests,
        list[schemas.RequestInfo],
        query=schemas.RequestFilter,
    ),
    ControlEndpoint(
        "PUT",
        "/requests",
        "Turn logging of headers and bodies on or off",
        simulation.set_log,
        None,
        schemas.LogSettings,
    ),
    ControlEndpoint("DELETE", "/requests", "Clear the logs of requests and pushes", simulation.clear_log),
    ControlEndpoint(
        "GET",
        "/pushes",
        "List pushes to subscribers, newest first; status 0 means no response",
        simulation.list_pushes,
        list[schemas.RequestInfo],
        query=schemas.RequestFilter,
    ),
    ControlEndpoint(
        "GET", "/meters", "Show usage per mailbox", simulation.list_meters, list[schemas.MeterInfo]
    ),
    ControlEndpoint("DELETE", "/meters", "Reset all meters", simulation.reset_meters),
)


def routes(sim: Simulator) -> list[Route]:
    of_providers = tuple(endpoint for provider in sim.providers.values() for endpoint in provider.controls)
    endpoints = (*ENDPOINTS, *of_providers)
    return [document_route(endpoints), *(endpoint.route(sim) for endpoint in endpoints)]
