"""`postroom webhooks`: add, list, remove, enable, disable, replay and test outgoing webhooks.

`flow.outbound` does the work.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from postroom.cli.exit_codes import ExitCode
from postroom.cli.options import JsonOption
from postroom.errors import PermanentError
from postroom.model import OrganizationId, WebhookFormat

if TYPE_CHECKING:
    from postroom.flow.outbound.deliver import DeliverContext
    from postroom.model import Secret
    from postroom.store.database import Database
    from postroom.store.webhooks import Webhook

group = typer.Typer(
    name="webhooks",
    help="Manage outgoing webhooks: URLs that receive events.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom webhooks add https://app.example.org/postroom --kind 'document.*'
  postroom webhooks list""",
)
WebhookArgument = Annotated[str, typer.Argument(metavar="WEBHOOK", help="ID, start of the ID, or URL.")]


class CreatedWebhook(NamedTuple):
    webhook: "Webhook"
    secret: "Secret"


@group.command(
    epilog="""\b
Examples:
  postroom webhooks add https://app.example.org/postroom
  postroom webhooks add https://app.example.org/postroom --kind document.changed --kind 'mailbox.*'
  postroom webhooks add https://events.example.org/in --format cloudevents"""
)
def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="https URL that receives the events.")],
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND", help="Event kind, or a pattern such as 'document.*'; repeatable [default: all]"
        ),
    ] = None,
    style: Annotated[
        WebhookFormat,
        typer.Option("--format", help="Event format: Standard Webhooks or CloudEvents 1.0."),
    ] = WebhookFormat.STANDARD,
    *,
    json: JsonOption = False,
) -> None:
    """Add a webhook and print its signing secret, shown only once."""

    async def act(database: "Database", organization: OrganizationId) -> CreatedWebhook:
        from postroom.flow.outbound import webhooks

        delivering = _build_context(database)
        created = await webhooks.add(
            database,
            delivering.sealer,
            organization,
            url,
            kind or [],
            style=style,
            allows_http=delivering.allows_http,
        )
        return CreatedWebhook(*created)

    from postroom.cli import output, startup

    created = startup.run_for_organization(act)
    if json:
        output.print_json(asdict(created.webhook) | {"secret": created.secret.reveal()})
    else:
        typer.echo(created.secret.reveal())


@group.command("list", epilog="\b\nExamples:\n  postroom webhooks list\n  postroom webhooks list --json")
def list_(*, json: JsonOption = False) -> None:
    """List webhooks and the state of their deliveries."""

    async def act(database: "Database", organization: OrganizationId) -> "list[Webhook]":
        from postroom.store import webhooks

        async with database.transaction(organization) as connection:
            return await webhooks.list_all(connection)

    from postroom.cli import output, startup

    webhooks = startup.run_for_organization(act)
    if json:
        output.print_json([asdict(webhook) for webhook in webhooks])
        return
    rows = [
        (
            str(webhook.id)[:8],
            webhook.url,
            " ".join(webhook.kinds) or "all",
            _describe_state(webhook),
            webhook.waiting,
            webhook.last_error,
        )
        for webhook in webhooks
    ]
    output.print_table(("ID", "URL", "EVENTS", "STATE", "PENDING", "LAST ERROR"), rows)


@group.command(epilog="\b\nExamples:\n  postroom webhooks remove 5f0c")
def remove(webhook_name: WebhookArgument) -> None:
    """Remove a webhook and its pending deliveries."""

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
    """Enable a webhook.

    It receives the events it missed, and failed deliveries are retried.
    """
    _set_enabled(webhook_name, enabled=True)
    typer.echo("Enabled.")


@group.command(epilog="\b\nExamples:\n  postroom webhooks disable 5f0c")
def disable(webhook_name: WebhookArgument) -> None:
    """Disable a webhook. Events are delivered once it is enabled again."""
    _set_enabled(webhook_name, enabled=False)
    typer.echo("Disabled.")


def _set_enabled(webhook_name: str, *, enabled: bool) -> None:
    async def act(database: "Database", organization: OrganizationId) -> None:
        from postroom.flow.outbound import webhooks

        webhook = await _find_webhook(database, organization, webhook_name)
        await webhooks.change(
            database, organization, webhook, url=webhook.url, kinds=webhook.kinds, enabled=enabled
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
    after: Annotated[
        int,
        typer.Option(min=0, metavar="POSITION", help="Feed position; all later events are delivered again."),
    ],
) -> None:
    """Deliver all events after a feed position again.

    Also retries failed deliveries, and enables the webhook.
    """

    async def act(database: "Database", organization: OrganizationId) -> None:
        from postroom.flow.outbound import webhooks

        webhook = await _find_webhook(database, organization, webhook_name)
        await webhooks.replay(database, organization, webhook, after=after)

    from postroom.cli import startup

    startup.run_for_organization(act)
    typer.echo("Replaying.")


@group.command(epilog="\b\nExamples:\n  postroom webhooks test 5f0c")
def test(webhook_name: WebhookArgument) -> ExitCode:
    """Send a `webhook.test` event now, and print the result."""

    async def act(database: "Database", organization: OrganizationId) -> str | None:
        from postroom.flow.outbound import webhooks

        webhook = await _find_webhook(database, organization, webhook_name)
        return await webhooks.send_test(_build_context(database), organization, webhook)

    from postroom.cli import startup

    fault = startup.run_for_organization(act)
    if fault is None:
        typer.echo("Accepted.")
        return ExitCode.OK
    typer.echo(f"Test failed: {fault}.", err=True)
    return ExitCode.FAILED


async def _find_webhook(database: "Database", organization: OrganizationId, webhook_name: str) -> "Webhook":
    from postroom.store import webhooks

    async with database.transaction(organization) as connection:
        registered = await webhooks.list_all(connection)
    matches = [
        webhook
        for webhook in registered
        if str(webhook.id).startswith(webhook_name.lower()) or webhook.url == webhook_name
    ]
    if len(matches) != 1:
        problem = "Several webhooks match" if matches else "No such webhook"
        raise PermanentError(f"{problem}. Run `postroom webhooks list` to see all.")
    return matches[0]


def _describe_state(webhook: "Webhook") -> str:
    if webhook.disabled_at is not None:
        return "disabled"
    return "failing" if webhook.failing_since is not None else "ok"


def _build_context(database: "Database") -> "DeliverContext":
    from postroom import config
    from postroom.wiring import outbound, secrets

    settings = config.load()
    return outbound.build_deliver_context(settings, database, secrets.build_sealer(settings))
