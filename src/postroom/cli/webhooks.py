"""`postroom webhooks`: applications of yours that are told of what happens."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from postroom.cli.exit_codes import ExitCode
from postroom.errors import PermanentError
from postroom.model import OrganizationId

if TYPE_CHECKING:
    from postroom.flow.outbound.deliver import DeliverContext
    from postroom.model import Secret
    from postroom.store.database import Database
    from postroom.store.webhooks import Webhook

group = typer.Typer(
    name="webhooks",
    help="Outgoing webhooks: applications of yours that are told of what happens.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom webhooks add https://app.example.org/hooks --kind 'document.*'
  postroom webhooks list""",
)
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
WebhookArgument = Annotated[
    str, typer.Argument(metavar="WEBHOOK", help="Its id, the beginning of it, or its address.")
]


class CreatedWebhook(NamedTuple):
    webhook: "Webhook"
    secret: "Secret"


@group.command(
    epilog="""\b
Examples:
  postroom webhooks add https://app.example.org/hooks
  postroom webhooks add https://app.example.org/hooks --kind document.changed --kind 'mailbox.*'"""
)
def add(
    url: Annotated[str, typer.Argument(help="Where to tell it, an https address.")],
    kind: Annotated[
        list[str] | None, typer.Option(help="Which events; may be repeated [default: all]")
    ] = None,
    *,
    json: JsonOption = False,
) -> None:
    """Add a webhook and print the secret that its deliveries are signed with, this once."""

    async def act(database: "Database", organization: OrganizationId) -> CreatedWebhook:
        from postroom.flow.outbound import webhooks

        delivering = _build_context(database)
        made = await webhooks.add(
            database, delivering.sealer, organization, url, kind or [], allows_http=delivering.allows_http
        )
        return CreatedWebhook(*made)

    from postroom.cli import output, startup

    made = startup.run_for_organization(act)
    if json:
        output.print_json(asdict(made.webhook) | {"secret": made.secret.reveal()})
    else:
        typer.echo(made.secret.reveal())


@group.command("list", epilog="\b\nExamples:\n  postroom webhooks list\n  postroom webhooks list --json")
def list_(*, json: JsonOption = False) -> None:
    """List the webhooks and how their deliveries go."""

    async def act(database: "Database", organization: OrganizationId) -> "list[Webhook]":
        from postroom.store import webhooks

        async with database.transaction(organization) as connection:
            return await webhooks.list_all(connection)

    from postroom.cli import output, startup

    found = startup.run_for_organization(act)
    if json:
        output.print_json([asdict(each) for each in found])
        return
    rows = [
        (
            str(each.id)[:8],
            each.url,
            " ".join(each.kinds) or "all",
            _describe_state(each),
            each.waiting,
            each.last_error,
        )
        for each in found
    ]
    output.print_table(("ID", "ADDRESS", "KINDS", "STATE", "WAITING", "LAST ERROR"), rows)


@group.command(epilog="\b\nExamples:\n  postroom webhooks remove 5f0c")
def remove(webhook_name: WebhookArgument) -> None:
    """Remove a webhook, and what waits for it."""

    async def act(database: "Database", organization: OrganizationId) -> None:
        from postroom.flow.outbound import webhooks

        await webhooks.remove(
            database, organization, (await _find_webhook(database, organization, webhook_name)).id
        )

    from postroom.cli import startup

    startup.run_for_organization(act)
    typer.echo("Removed.")


@group.command(epilog="\b\nExamples:\n  postroom webhooks enable 5f0c")
def enable(webhook_name: WebhookArgument) -> None:
    """Switch a webhook on again: what it missed is told, and what was given up is tried again."""
    _set_enabled(webhook_name, enabled=True)
    typer.echo("Switched on.")


@group.command(epilog="\b\nExamples:\n  postroom webhooks disable 5f0c")
def disable(webhook_name: WebhookArgument) -> None:
    """Switch a webhook off. What happens meanwhile is told when it is switched on again."""
    _set_enabled(webhook_name, enabled=False)
    typer.echo("Switched off.")


def _set_enabled(webhook_name: str, *, enabled: bool) -> None:
    async def act(database: "Database", organization: OrganizationId) -> None:
        from postroom.flow.outbound import webhooks

        found = await _find_webhook(database, organization, webhook_name)
        await webhooks.change(
            database, organization, found, url=found.url, kinds=found.kinds, enabled=enabled
        )

    from postroom.cli import startup

    startup.run_for_organization(act)


@group.command(
    epilog="""\b
Examples:
  postroom webhooks replay 5f0c --after 0
  postroom webhooks replay 5f0c --after 1200"""
)
def replay(
    webhook_name: WebhookArgument,
    after: Annotated[int, typer.Option(min=0, help="Everything after this position of the feed.")],
) -> None:
    """Tell everything after a position once more, and what was given up. Enables a disabled webhook."""

    async def act(database: "Database", organization: OrganizationId) -> None:
        from postroom.flow.outbound import webhooks

        found = await _find_webhook(database, organization, webhook_name)
        await webhooks.replay(database, organization, found, after=after)

    from postroom.cli import startup

    startup.run_for_organization(act)
    typer.echo("It is being told again.")


@group.command(epilog="\b\nExamples:\n  postroom webhooks test 5f0c")
def test(webhook_name: WebhookArgument) -> ExitCode:
    """Send one delivery of the type `webhook.test` now, and say what came of it."""

    async def act(database: "Database", organization: OrganizationId) -> str | None:
        from postroom.flow.outbound import webhooks

        found = await _find_webhook(database, organization, webhook_name)
        return await webhooks.send_test(_build_context(database), organization, found)

    from postroom.cli import startup

    fault = startup.run_for_organization(act)
    if fault is None:
        typer.echo("Accepted.")
        return ExitCode.OK
    typer.echo(f"Not accepted: the address {fault}.", err=True)
    return ExitCode.FAILED


async def _find_webhook(database: "Database", organization: OrganizationId, webhook_name: str) -> "Webhook":
    from postroom.store import webhooks

    async with database.transaction(organization) as connection:
        every = await webhooks.list_all(connection)
    found = [
        each for each in every if str(each.id).startswith(webhook_name.lower()) or each.url == webhook_name
    ]
    if len(found) != 1:
        words = "Several webhooks are called so" if found else "There is no such webhook"
        raise PermanentError(f"{words}. `postroom webhooks list` shows all.")
    return found[0]


def _describe_state(webhook: "Webhook") -> str:
    if webhook.disabled_at is not None:
        return "disabled"
    return "failing" if webhook.failing_since is not None else "good"


def _build_context(database: "Database") -> "DeliverContext":
    from postroom import config
    from postroom.wiring import outbound, secrets

    settings = config.load()
    return outbound.build_deliver_context(settings, database, secrets.build_sealer(settings))
