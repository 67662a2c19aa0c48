"""The pages a person sees: choose an account and allow or deny; an error; the form that posts a code back."""

from collections.abc import Mapping
from html import escape
from urllib.parse import urlencode

from mailsim.entra.directory import User

_STYLE = """
body{font:16px/1.5 'Segoe UI',system-ui,sans-serif;background:#f2f2f2;margin:0;color:#1b1b1b}
main{background:#fff;max-width:440px;margin:6vh auto;padding:44px;box-shadow:0 2px 6px rgba(0,0,0,.2)}
h1{font-size:24px;font-weight:600;margin:0 0 8px}ul{padding-left:20px}label{display:block;padding:8px 0}
.buttons{display:flex;gap:8px;justify-content:flex-end;margin-top:24px}
button{font:inherit;padding:6px 24px;border:0;background:#ccc;cursor:pointer}
button[value=allow]{background:#0067b8;color:#fff}
.note{color:#666;font-size:13px}pre{white-space:pre-wrap;font:13px/1.5 monospace}
"""


def _page(title: str, inside: str) -> str:
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><main>{inside}</main></body></html>"
    )


def consent(
    *, application: str, users: list[User], chosen: str, permissions: list[str], fields: Mapping[str, str]
) -> str:
    """`fields` is the request itself: it stays in the form's address, so that the decision repeats it."""
    known = {user.upn.lower() for user in users}
    first = chosen.lower() if chosen.lower() in known else next(iter(known), "")
    accounts = "".join(
        f'<label><input type="radio" name="account" value="{escape(user.upn)}"'
        f"{' checked' if user.upn.lower() == first or len(users) == 1 else ''} required> "
        f'{escape(user.name)} <span class="note">{escape(user.upn)}</span></label>'
        for user in users
    )
    wanted = "".join(f"<li>{escape(name)}</li>" for name in permissions)
    return _page(
        "Permissions requested",
        f'<p class="note">Simulated Microsoft sign-in</p><h1>Permissions requested</h1>'
        f"<p><b>{escape(application)}</b> would like to:</p><ul>{wanted}</ul>"
        f'<form method="post" action="?{escape(urlencode(fields))}">'
        f"{accounts or '<p>There is no account in this organization yet.</p>'}"
        '<div class="buttons"><button name="decision" value="deny" formnovalidate>Cancel</button>'
        '<button name="decision" value="allow">Accept</button></div></form>',
    )


def refusal(text: str) -> str:
    return _page(
        "Sign in", f"<h1>Sorry, but we're having trouble signing you in.</h1><pre>{escape(text)}</pre>"
    )


def form_post(uri: str, values: Mapping[str, str]) -> str:
    hidden = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'
        for name, value in values.items()
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Working...</title></head>'
        f'<body><form method="post" name="hiddenform" action="{escape(uri)}">{hidden}'
        "<noscript><p>Script is disabled. Click Submit to continue.</p>"
        '<input type="submit" value="Submit"></noscript></form>'
        "<script>document.forms[0].submit();</script></body></html>"
    )
