"""W3: the whole API walked by its own description: nothing of another organization, and never a 500."""

import asyncio
import warnings

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from example_counts import examples
from postroom.model import Role
from postroom.web.api import OPERATIONS
from web.api_client import build_client, create_key_header, open_api_application
from web.push_server import serve
from web.sign_in_support import create_session

# Which column a parameter of a path names.
COLUMNS = {
    "mailbox": ("mailboxes", "id"),
    "thread": ("threads", "id"),
    "message": ("messages", "id"),
    "part": ("attachments", "part"),
    "document": ("documents", "id"),
    "review": ("reviews", "id"),
    "record": ("records", "id"),
    "order": ("orders", "id"),
    "supplier": ("records", "supplier_id"),
    "failure": ("failures", "id"),
    "webhook": ("webhooks", "id"),
    "directory": ("directories", "id"),
    "destination": ("notice_destinations", "id"),
    "delivery": ("deliveries", "id"),
}
REASON = {"reason": "wrong"}
BODIES = {
    "replay_webhook": {"after": 0},
    "unlock_document": {"password": "guess"},
    "split_document": {"pages": "1,2"},
    "add_comment": {"text": "Ask Ann."},
    "assign_document": {"assignee": None},
    **dict.fromkeys(("reopen_record", "correct_record", "void_record", "split_record"), REASON),
    "set_supplier_trust": {"trusted": False},
    "merge_record": {**REASON, "into": "00000000-0000-0000-0000-000000000001"},
}
WITH_IDS = [each for each in OPERATIONS if "{" in each.path]


@pytest.fixture
async def served(database, organization, tmp_path):
    async with open_api_application(database, organization, tmp_path) as (made, _):
        yield made


def path_of(operation, filling):
    values = {
        name: filling.whole[table][column]
        for name, (table, column) in COLUMNS.items()
        if table in filling.whole
    }
    return operation.path.format(**values)


async def test_api_never_reaches_another_organization(
    served, filled, database, organization, other_organization
):
    ours, _ = filled
    session = await create_session(database, other_organization, Role.ADMIN)
    for headers in (
        await create_key_header(database, other_organization),
        {"cookie": f"postroom_session={session}", "origin": "http://post.example"},
    ):
        async with build_client(served, headers) as stranger:
            for operation in WITH_IDS:
                body = BODIES.get(operation.name, {})
                answer = await stranger.request(operation.method, path_of(operation, ours), json=body)
                assert answer.status_code == 404, (operation.name, answer.text)
            for operation in OPERATIONS:
                if "{" not in operation.path and operation.method == "GET":
                    answer = await stranger.get(operation.path)
                    is_missing = operation.path == "/key" and "cookie" in headers  # a member has none
                    assert answer.status_code == (404 if is_missing else 200), answer.text
                    for table, row in ours.whole.items():
                        if "id" in row and not isinstance(row["id"], int) and table != "organizations":
                            assert str(row["id"]) not in answer.text, (operation.name, table)


async def test_owner_reaches_every_operation(served, filled, database, organization):
    """The counterpart, so that the refusals above mean something."""
    ours, _ = filled
    async with build_client(served, await create_key_header(database, organization)) as owner:
        for operation in WITH_IDS:
            if operation.method == "GET":
                answer = await owner.get(path_of(operation, ours))
                problem = answer.json() if answer.status_code != 200 else {}
                assert answer.status_code in {200, 409, 410} or "content" in problem["detail"].lower(), (
                    operation.name
                )


async def test_every_operation_needs_a_key(served, filled):
    async with build_client(served, {}) as stranger:
        for operation in OPERATIONS:
            answer = await stranger.request(operation.method, path_of(operation, filled[0]), json={})
            assert answer.status_code == 401, operation.name


@pytest.mark.hypothesis
async def test_no_input_causes_a_500(served, filled, database, organization):
    headers = await create_key_header(database, organization)
    async with serve(served) as url:
        await asyncio.to_thread(fuzz, url, headers)


def fuzz(url, headers):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import schemathesis
        from schemathesis.checks import not_a_server_error

        schema = schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json")
        for found in schema.get_all_operations():
            operation = found.ok()

            @settings(
                max_examples=examples(12),
                deadline=None,
                database=None,
                phases=[Phase.explicit, Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy())
            def check(case):
                if case.path.endswith("/events") and case.query:
                    case.query.pop("wait", None)
                case.call_and_validate(
                    base_url=f"{url}/api/v1", headers=headers, checks=[not_a_server_error], timeout=30
                )

            check()
