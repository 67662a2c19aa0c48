"""`postroom blobs`: show storage usage, verify blobs, and record a new location after a move.

It moves no blob. `flow.storage.blob_verification` verifies.
"""

from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from postroom.cli.exit_codes import ExitCode
from postroom.cli.options import JsonOption

if TYPE_CHECKING:
    from postroom.flow.storage.blob_verification import BlobVerification
    from postroom.model import OrganizationId
    from postroom.ports import BlobStore
    from postroom.store.database import Database
    from postroom.store.sender_storage import SenderUse

group = typer.Typer(
    name="blobs",
    help="Show storage usage, verify stored files, or record a new location for them.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom blobs usage
  postroom blobs senders
  postroom blobs verify
  postroom blobs adopt""",
)


@group.command(
    epilog="""\b
Examples:
  postroom blobs verify
  postroom blobs verify --refetch
  postroom blobs verify --json | jq '.[].faults'"""
)
def verify(
    organization: Annotated[
        UUID | None,
        typer.Option(
            "--organization", metavar="ID", help="ID of one organization [default: all]", show_default=False
        ),
    ] = None,
    *,
    refetch: Annotated[
        bool,
        typer.Option("--refetch", help="Fetch missing and changed attachments again from their mailboxes."),
    ] = False,
    json: JsonOption = False,
) -> ExitCode:
    """Read all blobs and compare them with their digests.

    Exit code 1 if one is missing or changed. With --refetch, the next sync fetches it again.
    """
    from postroom import config
    from postroom.cli import output, startup
    from postroom.wiring import storage

    store = storage.build_blob_store(config.load())
    results = startup.run_with_database(
        lambda database: _verify_organizations(database, store, organization, refetch=refetch)
    )
    if json:
        output.print_json([_to_json(organization_id, findings) for organization_id, findings in results])
    else:
        for organization_id, findings in results:
            _print_findings(organization_id, findings)
        if not results:
            typer.echo("No organization exists yet.")
    return ExitCode.FAILED if any(findings.faults for _, findings in results) else ExitCode.OK


@group.command(
    epilog="""\b
Examples:
  postroom blobs usage
  postroom blobs usage --json | jq 'map(.used_bytes) | add'"""
)
def usage(*, json: JsonOption = False) -> None:
    """Show how much storage the files of each organization use, and the limit.

    Set the limit with POSTROOM_ORGANIZATION_STORAGE_GB.
    """
    from postroom import config
    from postroom.cli import output, startup
    from postroom.flow.storage import storage_limit

    used = startup.run_with_database(storage_limit.list_use)
    limit_gb = config.load().organization_storage_gb
    max_bytes = None if limit_gb is None else int(limit_gb * 1e9)
    if json:
        output.print_json(
            [{"organization": each, "used_bytes": size, "max_bytes": max_bytes} for each, size in used]
        )
        return
    limit = "none" if limit_gb is None else f"{limit_gb:,.2f} GB"
    rows = [(each, f"{size / 1e9:,.2f} GB", limit) for each, size in used]
    output.print_table(("ORGANIZATION", "STORED", "LIMIT"), rows)


@group.command(
    epilog="""\b
Examples:
  postroom blobs senders
  postroom blobs senders --limit 50 --json"""
)
def senders(
    *,
    limit: Annotated[
        int, typer.Option(min=1, max=1000, metavar="COUNT", help="Maximum number of rows.")
    ] = 20,
    json: JsonOption = False,
) -> None:
    """Show the senders whose attachments use the most storage, and the quota.

    Set the quota with POSTROOM_SENDER_STORAGE_GB.
    """
    from postroom import config
    from postroom.cli import output, startup
    from postroom.flow.storage import sender_quota

    async def act(database: "Database", organization: "OrganizationId") -> "list[SenderUse]":
        return await sender_quota.list_largest(database, organization, limit=limit)

    found = startup.run_for_organization(act)
    quota_gb = config.load().sender_storage_gb
    max_bytes = None if quota_gb is None else int(quota_gb * 1e9)
    if json:
        output.print_json(
            [{"sender": each.sender, "used_bytes": each.used_bytes, "max_bytes": max_bytes} for each in found]
        )
        return
    quota = "none" if quota_gb is None else f"{quota_gb:,.2f} GB"
    rows = [(each.sender or "(none)", f"{each.used_bytes / 1e9:,.2f} GB", quota) for each in found]
    output.print_table(("SENDER", "STORED", "QUOTA"), rows)


@group.command(
    epilog="""\b
Examples:
  postroom blobs adopt
  POSTROOM_BLOBS=s3://my-bucket/postroom postroom blobs adopt"""
)
def adopt() -> None:
    """Record that the blobs were moved to the location in the settings. Workers then accept it.

    Stop the workers and move the blobs first. Afterwards run `postroom blobs verify`.
    """
    from postroom import config
    from postroom.cli import startup
    from postroom.wiring import storage

    store = storage.build_blob_store(config.load())
    location = startup.run_with_database(lambda database: _record_location(database, store))
    typer.echo(f"Blob location: {location}.")


async def _record_location(database: "Database", store: "BlobStore") -> str:
    from postroom.store import blobs

    location = await store.check()
    async with database.engine() as connection:
        await blobs.set_location(connection, location)
    return location


async def _verify_organizations(
    database: "Database", store: "BlobStore", organization: UUID | None, *, refetch: bool
) -> "list[tuple[OrganizationId, BlobVerification]]":
    from postroom.cli import progress
    from postroom.flow.storage import blob_verification
    from postroom.store import blobs, organizations

    async with database.engine() as connection:
        organization_ids = await organizations.list_ids(connection)
    results: list[tuple[OrganizationId, BlobVerification]] = []
    for organization_id in organization_ids:
        if organization in {None, organization_id}:
            async with database.transaction(organization_id) as connection:
                total = await blobs.sum_sizes(connection)
            with progress.bar("blobs", total) as advance:
                findings = await blob_verification.verify(database, store, organization_id, checked=advance)
            if refetch:
                findings.refetched = await blob_verification.refetch(
                    database, store, organization_id, findings.faults
                )
            results.append((organization_id, findings))
    return results


def _print_findings(organization: UUID, findings: "BlobVerification") -> None:
    for fault in findings.faults:
        referrers = [f"message {id_}" for id_ in fault.referrers.messages]
        referrers += [f"document {id_}" for id_ in fault.referrers.documents]
        typer.echo(f"{fault.problem}  {fault.sha256.hex()}  {', '.join(referrers) or 'unreferenced'}")
    for sha256 in findings.extra:
        typer.echo(f"extra    {sha256.hex()}  unreferenced")
    state = "BROKEN" if findings.faults else "intact"
    typer.echo(
        f"{organization}: {state}. {findings.checked} blobs, {findings.size / 1e6:.1f} MB;"
        f" {len(findings.faults)} missing or changed; {len(findings.extra)} unreferenced objects."
    )
    if findings.refetched is not None:
        typer.echo(
            f"{findings.refetched} of {len(findings.faults)} will be fetched again by the next sync."
            " Restore the others from a backup of the blobs."
        )
    elif findings.faults:
        typer.echo("Run `postroom blobs verify --refetch` to fetch attachments again from their mailboxes.")
    if findings.extra:
        typer.echo("Garbage collection removes unreferenced objects. Mail that is fetched again reuses them.")


def _to_json(organization: UUID, findings: "BlobVerification") -> dict[str, Any]:
    return {
        "organization": organization,
        "checked": findings.checked,
        "bytes": findings.size,
        "unknown_objects": len(findings.extra),
        "extra": [sha256.hex() for sha256 in findings.extra],
        "refetched": findings.refetched,
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
