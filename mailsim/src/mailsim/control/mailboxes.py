"""Control handlers of mailboxes and folders, and of actions on grants, tokens and cursors.

The providers carry out these actions.
"""

from mailsim.control.endpoint import ControlCall
from mailsim.control.schemas import AffectedCount, FolderInfo, MailboxDetails, MailboxInfo
from mailsim.errors import check_name
from mailsim.mailbox import Mailbox
from mailsim.message_state import Folder
from mailsim.simulator import Provider


def mailbox_info(mailbox: Mailbox) -> MailboxInfo:
    return MailboxInfo(
        provider=mailbox.provider,
        address=mailbox.address,
        name=mailbox.account.name,
        messages=mailbox.total,
        unread=mailbox.states.count(lambda state: not state.read),
        changes=mailbox.sequence,
    )


def get_mailbox(call: ControlCall) -> Mailbox:
    return call.sim.registry.get_mailbox(call.path["address"])


def get_provider(call: ControlCall) -> Provider:
    return call.sim.providers[get_mailbox(call).provider]


async def list_mailboxes(call: ControlCall) -> list[MailboxInfo]:
    return [mailbox_info(mailbox) for mailbox in call.sim.registry.mailboxes.values()]


async def create_mailbox(call: ControlCall) -> MailboxInfo:
    body = call.body
    return mailbox_info(
        call.sim.registry.create_mailbox(
            body.provider,
            body.address,
            name=body.name,
            messages=body.messages,
            days=body.days,
            kinds=tuple(body.kinds),
            spread=body.spread,
            size=body.size,
        )
    )


async def show_mailbox(call: ControlCall) -> MailboxDetails:
    mailbox, provider = get_mailbox(call), get_provider(call)
    folders = [_folder_info(mailbox, folder, provider) for folder in mailbox.folders.values()]
    return MailboxDetails(
        mailbox_info(mailbox), mailbox.thread_total, folders, provider.subscriptions(mailbox)
    )


async def close_mailbox(call: ControlCall) -> None:
    call.sim.registry.close_mailbox(call.path["address"])


async def add_folder(call: ControlCall) -> FolderInfo:
    mailbox, body = get_mailbox(call), call.body
    folder = mailbox.add_folder(body.name, body.parent, hidden=body.hidden, query=body.query)
    return _folder_info(mailbox, folder, get_provider(call))


async def change_folder(call: ControlCall) -> FolderInfo:
    mailbox = get_mailbox(call)
    folder = mailbox.change_folder(call.path["key"], name=call.body.name, parent=call.body.parent)
    return _folder_info(mailbox, folder, get_provider(call))


async def delete_folder(call: ControlCall) -> None:
    get_mailbox(call).delete_folder(call.path["key"])


async def revoke_consent(call: ControlCall) -> AffectedCount:
    provider = get_provider(call)
    check_name("reason", call.body.reason, provider.names.revocation_reasons)
    return AffectedCount(await provider.revoke(get_mailbox(call), call.body))


async def expire_tokens(call: ControlCall) -> AffectedCount:
    return AffectedCount(await get_provider(call).expire_tokens(get_mailbox(call)))


async def expire_cursors(call: ControlCall) -> AffectedCount:
    return AffectedCount(await get_provider(call).expire_cursors(get_mailbox(call)))


async def send_lifecycle(call: ControlCall) -> AffectedCount:
    return AffectedCount(await get_provider(call).lifecycle(get_mailbox(call), call.body))


def _folder_info(mailbox: Mailbox, folder: Folder, provider: Provider) -> FolderInfo:
    inside = mailbox.in_folder(folder.key)
    return FolderInfo(
        key=folder.key,
        id=provider.folder_id(mailbox, folder.key),
        name=folder.name,
        kind=folder.kind,
        parent=folder.parent,
        hidden=folder.hidden,
        query=folder.query,
        messages=mailbox.states.count(inside),
        unread=mailbox.states.count(lambda state: inside(state) and not state.read),
    )
