"""Control of mailboxes and their folders: create, look, change, close; revoke and expire what was granted
for them.
"""

from mailsim.control.endpoint import Call
from mailsim.control.shapes import Done, FolderShape, MailboxDetails, MailboxShape
from mailsim.mailbox import Mailbox
from mailsim.simulator import Provider
from mailsim.state import Folder


def shape_of(mailbox: Mailbox) -> MailboxShape:
    return MailboxShape(
        provider=mailbox.provider,
        address=mailbox.address,
        name=mailbox.account.name,
        messages=mailbox.total,
        unread=mailbox.states.count(lambda state: not state.read),
        changes=mailbox.sequence,
    )


def mailbox_of(call: Call) -> Mailbox:
    return call.sim.world.mailbox(call.path["address"])


def provider_of(call: Call) -> Provider:
    return call.sim.providers[mailbox_of(call).provider]


async def list_mailboxes(call: Call) -> list[MailboxShape]:
    return [shape_of(mailbox) for mailbox in call.sim.world.mailboxes.values()]


async def create_mailbox(call: Call) -> MailboxShape:
    given = call.body
    return shape_of(
        call.sim.world.create(
            given.provider,
            given.address,
            name=given.name,
            messages=given.messages,
            days=given.days,
            kinds=tuple(given.kinds),
            spread=given.spread,
            size=given.size,
        )
    )


async def show_mailbox(call: Call) -> MailboxDetails:
    mailbox, provider = mailbox_of(call), provider_of(call)
    folders = [_folder(mailbox, folder, provider) for folder in mailbox.folders.values()]
    return MailboxDetails(shape_of(mailbox), mailbox.thread_total, folders, provider.subscriptions(mailbox))


async def close_mailbox(call: Call) -> None:
    call.sim.world.remove(call.path["address"])


async def add_folder(call: Call) -> FolderShape:
    mailbox, given = mailbox_of(call), call.body
    folder = mailbox.add_folder(given.name, given.parent, hidden=given.hidden, query=given.query)
    return _folder(mailbox, folder, provider_of(call))


async def change_folder(call: Call) -> FolderShape:
    mailbox = mailbox_of(call)
    folder = mailbox.change_folder(call.path["key"], name=call.body.name, parent=call.body.parent)
    return _folder(mailbox, folder, provider_of(call))


async def delete_folder(call: Call) -> None:
    mailbox_of(call).delete_folder(call.path["key"])


async def revoke_consent(call: Call) -> Done:
    return Done(await provider_of(call).revoke(mailbox_of(call), call.body))


async def expire_tokens(call: Call) -> Done:
    return Done(await provider_of(call).expire_tokens(mailbox_of(call)))


async def expire_cursors(call: Call) -> Done:
    return Done(await provider_of(call).expire_cursors(mailbox_of(call)))


async def send_lifecycle(call: Call) -> Done:
    return Done(await provider_of(call).lifecycle(mailbox_of(call), call.body))


def _folder(mailbox: Mailbox, folder: Folder, provider: Provider) -> FolderShape:
    inside = mailbox.inside(folder.key)
    return FolderShape(
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
