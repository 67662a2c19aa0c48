"""`postroom failures`: list and retry messages that failed."""

import json

import databases
from postroom.flow.mail.sync.isolation import PARKED


async def test_a_parked_message_is_listed_with_its_reason_and_retried(
    postroom, database_url, organization, owner, make_mailbox
):
    given = databases.login_settings(database_url) | {"POSTROOM_ORGANIZATION": str(organization)}
    assert postroom("failures", "list", **given).stdout == "No failures.\n"
    mailbox = await make_mailbox(organization)
    await owner.execute(
        """
        INSERT INTO failures (organization_id, mailbox_id, kind, subject, last_error)
        VALUES (%s, %s, 'message', 'poison', %s)
        """,
        [organization, mailbox, PARKED],
    )
    [found] = json.loads(postroom("failures", "list", "--json", **given).stdout)
    assert (found["subject"], found["last_error"], found["due_at"]) == ("poison", PARKED, None)
    assert PARKED in postroom("failures", "list", **given).stdout
    assert postroom("failures", "retry", str(found["id"]), **given).stdout == "Retrying.\n"
    cursor = await owner.execute("SELECT due_at <= postroom_now() FROM failures")
    assert await cursor.fetchall() == [(True,)]
    cursor = await owner.execute("SELECT kind, subject FROM work")
    assert await cursor.fetchall() == [("sync", str(mailbox))]
    missing = postroom("failures", "retry", "999999", **given)
    assert (missing.returncode, "No such open failure" in missing.stderr) == (1, True)
