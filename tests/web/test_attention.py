"""The overview names what needs a person, most urgent first, with the button that fixes it."""

import re

import pytest


async def read_attention(visitor):
    page = (await visitor.get("/")).text
    found = re.search(r'<ul class="attention">(.*?)</ul>', page, re.DOTALL)
    return found[1] if found else ""


async def test_organization_without_mailboxes_is_led_to_its_first_one(visitor):
    page = (await visitor.get("/")).text
    assert "Get started" in page
    assert 'href="/mailboxes#connect"' in page
    assert 'id="connect"' in (await visitor.get("/mailboxes")).text


@pytest.mark.usefixtures("filling")
async def test_problems_come_with_the_button_that_fixes_them(visitor, filling, owner):
    mailbox = filling.whole["mailboxes"]["id"]
    await owner.execute("UPDATE mailboxes SET paused_at = NULL, disconnected_at = NULL, health = 'active'")
    await owner.execute("UPDATE mailboxes SET health_cause = NULL")
    await owner.execute("UPDATE documents SET state = 'needs_review'")
    healthy = await read_attention(visitor)
    assert str(mailbox) not in healthy
    assert 'href="/documents/next"' in healthy
    assert "Get started" not in (await visitor.get("/")).text
    await owner.execute(
        "UPDATE mailboxes SET health = 'provider_error', health_cause = 'server_error', last_error = 'x'"
    )
    failing = await read_attention(visitor)
    assert f'action="/mailboxes/{mailbox}/sync"' in failing
    assert failing.index(f"/mailboxes/{mailbox}/sync") < failing.index("/documents/next")
    # Listed with a button, so the banner does not name it again.
    assert "One mailbox: " in (await visitor.get("/health")).text
    assert "One mailbox: " not in (await visitor.get("/")).text
    await owner.execute("UPDATE mailboxes SET health = 'token_refresh_failed', health_cause = 'consent_lost'")
    sign_in = f"authorize?mailbox={mailbox}"
    assert sign_in in await read_attention(visitor)
    page = (await visitor.get(f"/mailboxes/{mailbox}")).text
    assert "Reconnect the mailbox; the sync resumes where it stopped." in page
    assert sign_in in page
    await owner.execute(
        "UPDATE mailboxes SET health = 'active', health_cause = NULL, last_error = NULL, paused_at = now()"
    )
    assert f'action="/mailboxes/{mailbox}/resume"' in await read_attention(visitor)
    assert f'action="/mailboxes/{mailbox}/resume"' in (await visitor.get(f"/mailboxes/{mailbox}")).text
