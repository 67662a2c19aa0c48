"""W6: a walk through all routes shows and changes nothing of another organization."""

import re
from itertools import product

from psycopg.rows import dict_row

from store.table_filler import organization_column, organization_tables
from web.sign_in_support import create_session
from web.test_page_inputs import pages_of

COOKIE = "postroom_session"

# Which column a parameter of a path names. One that is in neither table fails the test: say what it is.
COLUMNS = {
    "mailbox": ("mailboxes", "id"),
    "thread": ("threads", "id"),
    "message": ("messages", "id"),
    "part": ("attachments", "part"),
    "document": ("documents", "id"),
    "record": ("records", "id"),
    "order": ("orders", "id"),
    "supplier": ("records", "supplier_id"),
    "view": ("saved_views", "id"),
    "member": ("members", "id"),
    "webhook": ("webhooks", "id"),
    "directory": ("directories", "id"),
    "destination": ("notice_destinations", "id"),
}
WORDS = {
    "page": ["0"],
    "action": [
        "pause",
        "resume",
        "disconnect",
        "purge",
        "sync",
        "confirm",
        "reject",
        "again",
        "reopen",
        "correct",
        "void",
        "merge",
        "split",
        "on",
        "off",
        "test",
        "replay",
        "remove",
        "link",
        "unlink",
        "close",
    ],
}
# Not of an organization: where a login comes from and goes to.
OTHERWISE = {"provider"}


def parameters_of(route):
    return re.findall(r"{(\w+)[^}]*}", route.path)


def addresses(route, whole):
    """The route with the ids of an organization, once for each word that it may hold beside them."""
    names = parameters_of(route)
    values = [
        [str(whole[COLUMNS[each][0]][COLUMNS[each][1]])] if each in COLUMNS else WORDS[each] for each in names
    ]
    for chosen in product(*values):
        given = dict(zip(names, chosen, strict=True))
        yield re.sub(r"{(\w+)[^}]*}", lambda found, given=given: given[found[1]], route.path)


def form_of(whole):
    """Whatever a form may name, theirs."""
    return {
        "failure": str(whole["failures"]["id"]),
        "kind": whole["work"]["kind"],
        "subject": whole["work"]["subject"],
        "key": str(whole["api_keys"]["id"]),
        "mailbox": str(whole["mailboxes"]["id"]),
        "role": "reader",
        "how": "Everything that is kept",
        "record": str(whole["records"]["id"]),
        f"document-{whole['documents']['id']}": "on",
        "name": "a view",
    }


async def rows_of(owner, organization):
    found = {}
    async with owner.cursor(row_factory=dict_row) as cursor:
        for table in await organization_tables(owner):
            await cursor.execute(
                f"SELECT * FROM {table} WHERE {organization_column(table)} = %s", [organization]
            )
            found[table] = await cursor.fetchall()
    return found


async def test_no_page_shows_or_changes_data_of_another_organization(
    site, visitor, owner, other_organization, filled
):
    theirs = filled[1].whole
    routes = [each for each in pages_of(site) if not OTHERWISE & set(parameters_of(each))]
    before = await rows_of(owner, other_organization)
    cookies, walked = dict(visitor.cookies), 0
    for route in routes:
        for address, method in product(addresses(route, theirs), getattr(route, "methods", None) or ()):
            visitor.cookies = cookies  # one of the pages signs out
            form = {"data": form_of(theirs)} if method == "POST" else {}
            answer = await visitor.request(method, address, **form)
            for table, row in theirs.items():
                if table != "organizations" and "id" in row and not isinstance(row["id"], int):
                    shown = answer.text.replace(address, "")
                    assert str(row["id"]) not in shown, (method, address, table)
            if parameters_of(route):
                walked += 1
                assert answer.status_code in {404, 405}, (method, address, answer.text)
    assert walked > 30
    assert await rows_of(owner, other_organization) == before


async def test_owner_reaches_every_page(site, visitor, filled):
    """The counterpart, so that the refusals above mean something."""
    ours = filled[0].whole
    for route in pages_of(site):
        if parameters_of(route) and not OTHERWISE & set(parameters_of(route)) and "GET" in route.methods:
            answers = [await visitor.get(each) for each in addresses(route, ours)]
            reached = any(answer.status_code in {200, 303} for answer in answers)
            assert reached or "{part" in route.path or "{page" in route.path or "/file" in route.path, route


async def test_only_the_operators_admins_see_the_settings_of_the_server(
    site, visitor, database, other_organization
):
    own = await visitor.get("/settings")
    assert "POSTROOM_WEBHOOK_NETWORKS" in own.text
    assert 'href="/settings"' in (await visitor.get("/api-keys")).text
    visitor.cookies = {COOKIE: await create_session(database, other_organization, address="eve@example.com")}
    foreign = await visitor.get("/settings")
    assert foreign.status_code == 403
    assert "POSTROOM_WEBHOOK_NETWORKS" not in foreign.text
    keys = await visitor.get("/api-keys")
    assert keys.status_code == 200
    assert 'href="/settings"' not in keys.text
