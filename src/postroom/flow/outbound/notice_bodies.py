"""The formats of a notice: plain text, a Slack message, and an Adaptive Card for Microsoft Teams.

Each item says what happened, why, and what to do, and links to the page where it is done. A notice never
contains the subject, the sender or the content of a message.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from postroom.notice_types import NoticeKind
from postroom.store.notice_conditions import NoticeCondition, NoticeStage

# More would be cut off: Slack accepts 50 blocks, Teams 28 kB.
MAX_ITEMS: Final = 15
KIND_NAMES: Final[Mapping[NoticeKind, str]] = {
    NoticeKind.REVIEW_QUEUE: "Review overdue",
    NoticeKind.CONSENT_LOST: "Reconnect required",
    NoticeKind.AUDIT_FAILED: "Audit failed",
    NoticeKind.WEBHOOK_STOPPED: "Webhook stopped",
}
_PREFIXES: Final[Mapping[NoticeStage, str]] = {
    NoticeStage.STARTED: "",
    NoticeStage.REMINDER: "Reminder: ",
    NoticeStage.RESOLVED: "Resolved: ",
}
_RESOLVED: Final[Mapping[NoticeKind, str]] = {
    NoticeKind.REVIEW_QUEUE: "No document has waited for review longer than the limit.",
    NoticeKind.CONSENT_LOST: "The mailbox no longer needs to be reconnected.",
    NoticeKind.AUDIT_FAILED: "The latest audit finished and found no differences.",
    NoticeKind.WEBHOOK_STOPPED: "The webhook is enabled and no longer failing, or a person disabled it.",
}


@dataclass(frozen=True, slots=True)
class NoticeItem:
    """One condition in words. `action` is empty if there is nothing to do."""

    title: str
    text: str
    action: str
    link_name: str
    link: str


@dataclass(frozen=True, slots=True)
class NoticeContent:
    subject: str
    items: Sequence[NoticeItem]
    footer: str


def build_content(conditions: Sequence[NoticeCondition], *, url: str, review_hours: float) -> NoticeContent:
    """A notice about these conditions, with links to the pages below `url`."""
    items = [_build_item(each, url, review_hours) for each in conditions[:MAX_ITEMS]]
    more = len(conditions) - len(items)
    first = conditions[0]
    subject = f"{_PREFIXES[first.stage]}{KIND_NAMES[first.kind]}"
    if len(conditions) > 1:
        subject += f" and {len(conditions) - 1} more"
    footer = f"Sent by Postroom. Destinations and quiet hours: {url}/notices"
    if more:
        footer = f"{more} more: {url}/ shows all. {footer}"
    return NoticeContent(subject, items, footer)


def build_test_content(url: str) -> NoticeContent:
    item = NoticeItem(
        "Test notice",
        "An admin of your organization sent this notice to check the destination.",
        "Nothing is wrong. No action is needed.",
        "Notices",
        f"{url}/notices",
    )
    return NoticeContent("Test notice", [item], "Sent by Postroom.")


def to_text(content: NoticeContent) -> str:
    """The body of an email."""
    paragraphs = [
        "\n".join(line for line in (item.title, item.text, item.action, item.link) if line)
        for item in content.items
    ]
    return "\n\n".join([*paragraphs, f"-- \n{content.footer}"]) + "\n"


def to_slack(content: NoticeContent) -> bytes:
    """The body of a request to an incoming webhook of Slack."""
    blocks: list[dict[str, object]] = [
        {
            "type": "section",
            "text": {
                "type": "mrkdwn",
                "text": "\n".join(
                    line
                    for line in (
                        f"*{_escape_slack(item.title)}*",
                        _escape_slack(item.text),
                        _escape_slack(item.action),
                        f"<{item.link}|{item.link_name}>",
                    )
                    if line
                ),
            },
        }
        for item in content.items
    ]
    footer = {"type": "mrkdwn", "text": _escape_slack(content.footer)}
    blocks.append({"type": "context", "elements": [footer]})
    return json.dumps({"text": f"Postroom: {_escape_slack(content.subject)}", "blocks": blocks}).encode()


def to_teams(content: NoticeContent) -> bytes:
    """The body of a request to a webhook of a Teams workflow: a message with an Adaptive Card."""
    body: list[dict[str, object]] = []
    for item in content.items:
        body.append(_text_block(item.title, weight="Bolder", separator=True))
        body.append(_text_block(item.text))
        if item.action:
            body.append(_text_block(item.action))
        action = {"type": "Action.OpenUrl", "title": item.link_name, "url": item.link}
        body.append({"type": "ActionSet", "actions": [action]})
    body.append(_text_block(content.footer, isSubtle=True, size="Small"))
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": f"Postroom: {content.subject}",
        "body": body,
    }
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    return json.dumps({"type": "message", "attachments": [attachment]}).encode()


def _build_item(condition: NoticeCondition, url: str, review_hours: float) -> NoticeItem:
    title = f"{_PREFIXES[condition.stage]}{KIND_NAMES[condition.kind]}"
    label = _describe_label(condition)
    title = f"{title}: {label}" if label else title
    text, action, link_name, path = _describe(condition, review_hours)
    if condition.stage is NoticeStage.RESOLVED:
        text, action = _RESOLVED[condition.kind], ""
    return NoticeItem(title, text, action, link_name, f"{url}{path}")


def _describe_label(condition: NoticeCondition) -> str:
    """The address of the mailbox, or the host of the webhook: the rest of a URL may hold a credential."""
    if condition.kind is NoticeKind.WEBHOOK_STOPPED:
        return urlsplit(condition.label or "").hostname or ""
    return condition.label or ""


def _describe(condition: NoticeCondition, review_hours: float) -> tuple[str, str, str, str]:
    """What happened and why, what to do, and the name and path of the page where it is done."""
    since = f"{condition.since:%Y-%m-%d %H:%M} UTC"
    match condition.kind:
        case NoticeKind.REVIEW_QUEUE:
            text = (
                f"Documents waiting for review for more than {review_hours:g} hours: {condition.amount}. The"
                f" oldest passed this limit on {since}. None becomes a record until a person decides."
            )
            return (
                text,
                "Review the oldest documents first, or assign them.",
                "Review queue",
                "/documents?state=needs_review",
            )
        case NoticeKind.CONSENT_LOST:
            return (
                f"The grant has expired or was revoked ({since}). New mail is not fetched.",
                "Reconnect the mailbox; the sync resumes where it stopped.",
                "Mailbox",
                f"/mailboxes/{condition.subject}",
            )
        case NoticeKind.AUDIT_FAILED:
            return _describe_audit(condition, since)
        case NoticeKind.WEBHOOK_STOPPED:
            state = (
                "It was disabled because it accepted nothing for three days"
                if condition.detail == "disabled"
                else "It accepts no deliveries. After three days, Postroom disables it"
            )
            return (
                f"{state}. It has been failing since {since}.",
                "Fix the receiver. Enable the webhook if it is disabled; it receives the events it missed.",
                "Webhooks",
                "/webhooks",
            )


def _describe_audit(condition: NoticeCondition, since: str) -> tuple[str, str, str, str]:
    page = ("Mailbox", f"/mailboxes/{condition.subject}")
    if condition.detail == "unfinished":
        return (
            f"The audit of this mailbox cannot finish: it failed repeatedly ({since}).",
            "Check the mailbox page and the workers' log, fix the cause, then start the audit again.",
            *page,
        )
    text = f"The audit of {since} found messages that are missing, extra or different: {condition.amount}."
    if condition.detail == "repairing":
        return f"{text} A repair has started.", "If the next audit fails too, inform the operator.", *page
    return (
        text,
        "Start an audit on the mailbox page. It repairs the differences, unless repairs are turned off.",
        *page,
    )


def _escape_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _text_block(text: str, **properties: object) -> dict[str, object]:
    return {"type": "TextBlock", "text": text, "wrap": True, **properties}
