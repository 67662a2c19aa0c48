"""`postroom blobs`: proves that every stored byte is there, and takes note of a move."""

from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from postroom.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from postroom.flow.storage.blob_verification import BlobVerification
    from postroom.model import OrganizationId
    from postroom.ports import BlobStore
    from postroom.store.database import Database

group = typer.Typer(
    name="blobs",
    help="The stored bytes of attachments and documents.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom blobs verify
  postroom blobs adopt""",
)


@group.command(
    epilog="""\b
Examples:
  postroom blobs verify
  postroom blobs verify --json | jq '.[].faults'"""
)
def verify(
    organization: Annotated[
        UUID | None,
        typer.Option("--organization", help="Only this one, by its id [default: all]", show_default=False),
    ] = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> ExitCode:
    """Read every stored byte and compare it with its digest. Exit code 1 when one is missing or changed."""
    from postroom import config
    from postroom.cli import output, startup
    from postroom.wiring import storage

    store = storage.build_blob_store(config.load())
    found = startup.run_with_database(lambda database: _verify_organizations(database, store, organization))
    if json:
        output.print_json([_to_json(each, findings) for each, findings in found])
    else:
        for each, findings in found:
            _print_findings(each, findings)
        if not found:
            typer.echo("There is no organization yet.")
    return ExitCode.FAILED if any(findings.faults for _, findings in found) else ExitCode.OK


@group.command(
    epilog="""\b
Examples:
  postroom blobs adopt
  POSTROOM_BLOBS=s3://my-bucket/postroom postroom blobs adopt"""
)
def adopt() -> None:
    """Take note that the blobs were moved to where the settings say. Workers start there from now on.

    Move the bytes first, with the workers stopped; then prove it with `postroom blobs verify`.
    """
    from postroom import config
    from postroom.cli import startup
    from postroom.wiring import storage

    store = storage.build_blob_store(config.load())
    here = startup.run_with_database(lambda database: _record_location(database, store))
    typer.echo(f"The blobs lie in {here}.")


async def _record_location(database: "Database", store: "BlobStore") -> str:
    from postroom.store import blobs

    here = await store.check()
    async with database.engine() as connection:
        await blobs.set_location(connection, here)
    return here


async def _verify_organizations(
    database: "Database", store: "BlobStore", organization: UUID | None
) -> "list[tuple[OrganizationId, BlobVerification]]":
    from postroom.cli import progress
    from postroom.flow.storage import blob_verification
    from postroom.store import blobs, organizations

    async with database.engine() as connection:
        every = await organizations.list_ids(connection)
    found: list[tuple[OrganizationId, BlobVerification]] = []
    for each in every:
        if organization in {None, each}:
            async with database.transaction(each) as connection:
                total = await blobs.sum_sizes(connection)
            with progress.bar("blobs", total) as advance:
                found.append((each, await blob_verification.verify(database, store, each, checked=advance)))
    return found


def _print_findings(organization: UUID, findings: "BlobVerification") -> None:
    for fault in findings.faults:
        referrers = [f"message {each}" for each in fault.referrers.messages]
        referrers += [f"document {each}" for each in fault.referrers.documents]
        typer.echo(f"{fault.problem}  {fault.sha256.hex()}  {', '.join(referrers) or 'nothing refers to it'}")
    state = "broken" if findings.faults else "whole"
    typer.echo(
        f"{organization}: {state}. {findings.checked} blobs, {findings.size / 1e6:.1f} MB;"
        f" {len(findings.faults)} missing or changed; {findings.unknown} objects that nothing refers to."
    )


def _to_json(organization: UUID, findings: "BlobVerification") -> dict[str, Any]:
    return {
        "organization": organization,
        "checked": findings.checked,
        "bytes": findings.size,
        "unknown_objects": findings.unknown,
        "faults": [
            {
                "sha256": fault.sha256.hex(),
                "what": fault.problem,
                "messages": fault.referrers.messages,
                "documents": fault.referrers.documents,
            }
            for fault in findings.faults
        ],
    }
