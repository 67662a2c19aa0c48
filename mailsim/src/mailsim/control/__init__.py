"""The control API under /_sim: what tests and people do to the simulated world, as one table of endpoints."""

from starlette.routing import Route

from mailsim import orders
from mailsim.control import happenings, mailboxes, messages, shapes, truth
from mailsim.control.endpoint import Endpoint
from mailsim.control.openapi import document_route
from mailsim.simulator import Simulator

_BOX = "/mailboxes/{address}"
_MESSAGE = _BOX + "/messages/{message}"

ENDPOINTS = (
    Endpoint("GET", "/", "What this simulation is", happenings.summary, shapes.Summary),
    Endpoint("GET", "/clock", "What the clock shows", happenings.show_clock, shapes.Moment),
    Endpoint("POST", "/clock", "Move the clock forward", happenings.move_clock, shapes.Moment, shapes.Move),
    Endpoint("POST", "/settle", "Wait until the pushes under way are done", happenings.settle, shapes.Moment),
    Endpoint(
        "GET", "/applications", "OAuth clients", happenings.list_applications, list[shapes.ApplicationShape]
    ),
    Endpoint(
        "POST",
        "/applications",
        "Register an OAuth client",
        happenings.register_application,
        shapes.ApplicationShape,
        shapes.NewApplication,
        status=201,
    ),
    Endpoint("GET", "/mailboxes", "All mailboxes", mailboxes.list_mailboxes, list[shapes.MailboxShape]),
    Endpoint(
        "POST",
        "/mailboxes",
        "Create a mailbox with generated mail",
        mailboxes.create_mailbox,
        shapes.MailboxShape,
        shapes.NewMailbox,
        status=201,
    ),
    Endpoint(
        "GET",
        _BOX,
        "A mailbox with its folders or labels and its subscriptions",
        mailboxes.show_mailbox,
        shapes.MailboxDetails,
    ),
    Endpoint("DELETE", _BOX, "Close a mailbox", mailboxes.close_mailbox),
    Endpoint(
        "POST",
        _BOX + "/folders",
        "Add a folder or label",
        mailboxes.add_folder,
        shapes.FolderShape,
        shapes.NewFolder,
        status=201,
    ),
    Endpoint(
        "PATCH",
        _BOX + "/folders/{key}",
        "Rename a folder or label, or move a folder",
        mailboxes.change_folder,
        shapes.FolderShape,
        shapes.FolderChange,
    ),
    Endpoint("DELETE", _BOX + "/folders/{key}", "Delete a folder or label", mailboxes.delete_folder),
    Endpoint(
        "GET",
        _BOX + "/truth",
        "Every message with ids, places, flags and digests, in pages by rising number",
        truth.truth,
        shapes.Truth,
        query=shapes.Page,
    ),
    Endpoint(
        "POST",
        _BOX + "/messages",
        "Deliver a message byte for byte, or generated mail",
        messages.deliver,
        shapes.MessageNames,
        shapes.NewMail,
        shapes.Placing,
        mail=True,
        status=201,
    ),
    Endpoint("GET", _MESSAGE + "/raw", "The bytes of a message", messages.show_raw, bytes),
    Endpoint(
        "POST",
        _MESSAGE + "/move",
        "Move to a folder; at Gmail to INBOX, SPAM, TRASH or a label",
        messages.move,
        shapes.Done,
        shapes.FolderName,
    ),
    Endpoint(
        "POST",
        _MESSAGE + "/mark",
        "Read, flag, importance, categories",
        messages.mark,
        shapes.Done,
        shapes.Marks,
    ),
    Endpoint(
        "POST", _MESSAGE + "/label", "Add and remove Gmail labels", messages.label, shapes.Done, shapes.Labels
    ),
    Endpoint("POST", _MESSAGE + "/trash", "Move to the trash", messages.trash, shapes.Done),
    Endpoint("DELETE", _MESSAGE, "Delete for good", messages.delete),
    Endpoint(
        "POST",
        _BOX + "/drafts",
        "Save a new draft",
        messages.save_draft,
        shapes.MessageNames,
        mail=True,
        status=201,
    ),
    Endpoint(
        "PUT",
        _MESSAGE,
        "Save a draft again (at Gmail under a new id)",
        messages.edit_draft,
        shapes.MessageNames,
        mail=True,
    ),
    Endpoint("POST", _MESSAGE + "/send", "Send a draft", messages.send_draft, shapes.MessageNames),
    Endpoint(
        "POST",
        _BOX + "/revoke",
        "Revoke what the user granted",
        mailboxes.revoke_consent,
        shapes.Done,
        orders.Revocation,
    ),
    Endpoint(
        "POST",
        _BOX + "/expire-tokens",
        "End the access tokens now",
        mailboxes.expire_tokens,
        shapes.Done,
        orders.Expiry,
    ),
    Endpoint(
        "POST",
        _BOX + "/expire-cursors",
        "Forget history ids or delta links",
        mailboxes.expire_cursors,
        shapes.Done,
        orders.Expiry,
    ),
    Endpoint(
        "POST",
        _BOX + "/lifecycle",
        "Send a lifecycle event of the mailbox's subscriptions",
        mailboxes.send_lifecycle,
        shapes.Done,
        orders.Lifecycle,
    ),
    Endpoint("GET", "/faults", "Faults on order", happenings.list_faults, list[shapes.FaultShape]),
    Endpoint(
        "POST",
        "/faults",
        "Order a fault",
        happenings.add_fault,
        shapes.FaultShape,
        shapes.NewFault,
        status=201,
    ),
    Endpoint("DELETE", "/faults", "Cancel all faults", happenings.clear_faults),
    Endpoint("DELETE", "/faults/{number}", "Cancel a fault", happenings.remove_fault),
    Endpoint(
        "GET",
        "/requests",
        "Requests to the providers, newest first",
        happenings.list_requests,
        list[shapes.RequestShape],
        query=shapes.RequestFilter,
    ),
    Endpoint(
        "PUT", "/requests", "Keep headers and bodies, or not", happenings.set_log, None, shapes.LogSettings
    ),
    Endpoint("DELETE", "/requests", "Empty the logs of requests and pushes", happenings.clear_log),
    Endpoint(
        "GET",
        "/pushes",
        "What was sent to subscribers, newest first; status 0: no answer",
        happenings.list_pushes,
        list[shapes.RequestShape],
        query=shapes.RequestFilter,
    ),
    Endpoint("GET", "/meters", "What was used, per mailbox", happenings.list_meters, list[shapes.MeterShape]),
    Endpoint("DELETE", "/meters", "All meters back to zero", happenings.reset_meters),
)


def routes(sim: Simulator) -> list[Route]:
    own = tuple(endpoint for provider in sim.providers.values() for endpoint in provider.controls)
    return [document_route((*ENDPOINTS, *own)), *(endpoint.route(sim) for endpoint in (*ENDPOINTS, *own))]
