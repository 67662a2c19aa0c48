import pytest

from flow.mail.fake_provider import NOW, with_folders, with_labels
from flow.mail.mirror import Mirror


@pytest.fixture
def make_mirror(database, owner, organization, make_mailbox):
    async def make(remote) -> Mirror:
        await owner.execute("UPDATE clock_offset SET ahead = %s - clock_timestamp()", [NOW])
        mailbox = await make_mailbox(organization, provider="gmail" if remote.labelled else "outlook")
        return Mirror(remote, database, owner, organization, mailbox)

    return make


@pytest.fixture(params=[with_labels, with_folders], ids=["labels", "folders"])
async def mirror(request, make_mirror) -> Mirror:
    """Runs for a provider with one feed and for one with a feed for each folder."""
    return await make_mirror(request.param())


@pytest.fixture
async def labels(make_mirror) -> Mirror:
    return await make_mirror(with_labels())


@pytest.fixture
async def folders(make_mirror) -> Mirror:
    return await make_mirror(with_folders())
