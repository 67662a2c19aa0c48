"""The HTML of Entra's pages: consent with account selection, device code, error, form post.

It only renders; `authorize` and `device_flow` decide what to show.
"""

from collections.abc import Mapping
from html import escape
from urllib.parse import urlencode

from mailsim.entra.directory import EntraUser

_STYLE = """
body{font:16px/1.5 'Segoe UI',system-ui,sans-serif;background:#f2f2f2;margin:0;color:#1b1b1b}
main{background:#fff;max-width:440px;margin:6vh auto;padding:44px;box-shadow:0 2px 6px rgba(0,0,0,.2)}
h1{font-size:24px;font-weight:600;margin:0 0 8px}ul{padding-left:20px}label{display:block;padding:8px 0}
.buttons{display:flex;gap:8px;justify-content:flex-end;margin-top:24px}
button{font:inherit;padding:6px 24px;border:0;background:#ccc;cursor:pointer}
button[value=allow]{background:#0067b8;color:#fff}
.note{color:#666;font-size:13px}pre{white-space:pre-wrap;font:13px/1.5 monospace}
"""


def _render_page(title: str, content: str) -> str:
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><main>{content}</main></body></html>"
    )


def render_consent(
    *,
    application: str,
    users: list[EntraUser],
    chosen: str,
    permissions: list[str],
    fields: Mapping[str, str] | None = None,
    hidden: Mapping[str, str] | None = None,
) -> str:
    """Render the consent page.

    `fields` is the request, which the form's URL repeats with the decision; `hidden` are fields of the form.
    """
    addresses = {user.upn.lower() for user in users}
    first = chosen.lower() if chosen.lower() in addresses else next(iter(addresses), "")
    accounts = "".join(
        f'<label><input type="radio" name="account" value="{escape(user.upn)}"'
        f"{' checked' if user.upn.lower() == first or len(users) == 1 else ''} required> "
        f'{escape(user.name)} <span class="note">{escape(user.upn)}</span></label>'
        for user in users
    )
    items = "".join(f"<li>{escape(name)}</li>" for name in permissions)
    return _render_page(
        "Permissions requested",
        f'<p class="note">Simulated Microsoft sign-in</p><h1>Permissions requested</h1>'
        f"<p><b>{escape(application)}</b> would like to:</p><ul>{items}</ul>"
        f'<form method="post" action="?{escape(urlencode(fields or {}))}">{_render_hidden(hidden or {})}'
        f"{accounts or '<p>There is no account in this organization yet.</p>'}"
        '<div class="buttons"><button name="decision" value="deny" formnovalidate>Cancel</button>'
        '<button name="decision" value="allow">Accept</button></div></form>',
    )


def render_error(text: str) -> str:
    return _render_page(
        "Sign in", f"<h1>Sorry, but we're having trouble signing you in.</h1><pre>{escape(text)}</pre>"
    )


def render_code_form(code: str) -> str:
    """Render the page on which a user enters the code of a device."""
    problem = '<p role="alert">That code did not work. Check the code and try again.</p>' if code else ""
    return _render_page(
        "Enter code",
        f'<p class="note">Simulated Microsoft sign-in</p><h1>Enter code</h1>{problem}'
        "<p>Enter the code displayed on your app or device.</p>"
        f'<form method="post"><input name="otc" aria-label="Code" value="{escape(code)}" required autofocus>'
        '<div class="buttons"><button>Next</button></div></form>',
    )


def render_notice(text: str) -> str:
    return _render_page("Sign in", f'<p class="note">Simulated Microsoft sign-in</p><p>{escape(text)}</p>')


def _render_hidden(values: Mapping[str, str]) -> str:
    return "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'
        for name, value in values.items()
    )


def render_form_post(uri: str, values: Mapping[str, str]) -> str:
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Working...</title></head>'
        f'<body><form method="post" name="hiddenform" action="{escape(uri)}">{_render_hidden(values)}'
        "<noscript><p>Script is disabled. Click Submit to continue.</p>"
        '<input type="submit" value="Submit"></noscript></form>'
        "<script>document.forms[0].submit();</script></body></html>"
    )
