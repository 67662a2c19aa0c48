"""Members and sessions for tests of pages: a site, a signed-in member, the session cookie."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx2

import databases
from postroom.config import Settings
from postroom.flow.access import members, sign_in
from postroom.model import OrganizationId, Role, parse_sealing_keys
from postroom.vault import ConfiguredKeys, Sealer
from postroom.web.sessions import SiteContext

URL = "http://post.example"
ORGANIZATION = Settings.model_fields["organization"].default
SEALER = Sealer(ConfiguredKeys(parse_sealing_keys(["one:" + "A" * 43 + "="])))


def build_site(database, organization, *, url=URL, **given) -> SiteContext:
    return SiteContext(database, organization, url, SEALER, **given)


async def create_session(database, organization, role=Role.ADMIN, address=None) -> str:
    """The cookie's value of a member who just signed in."""
    member = await members.add(database, organization, address or f"{role}@example.org", role=role)
    token = await sign_in.create_link(database, member)
    done = await sign_in.sign_in_by_link(database, token, seconds=3600)
    return done.session.reveal()


def create_session_sync(database_url, home, role=Role.ADMIN) -> str:
    """The same for a Postroom that runs as a program, on this database, with the ledger's key in its home."""
    macs = databases.build_home_macs(home)

    async def make():
        async with databases.open_pools(database_url, entry_macs=macs) as database:
            return await create_session(database, OrganizationId(ORGANIZATION), role)

    with ThreadPoolExecutor(1) as thread:  # the test may have an event loop of its own
        return thread.submit(asyncio.run, make()).result()


async def create_session_cookie(site, role=Role.ADMIN, address=None) -> dict[str, str]:
    return {site.cookie: await create_session(site.database, site.organization, role, address)}


@contextmanager
def open_signed_in_client(url: str, link: str):
    """A client that used a one-time link of a running Postroom, as a browser does."""
    with httpx2.Client(base_url=url, trust_env=False, timeout=30, headers={"origin": url}) as client:
        page = client.get(link)
        token = re.search(r'name="token" value="([^"]+)"', page.text)[1]
        done = client.post("/sign-in/link", data={"token": token})
        assert done.status_code == 303, done.text
        yield client
