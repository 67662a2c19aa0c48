"""The Graph permissions that simulated Entra knows, and parsing and formatting of `scope` values."""

from mailsim.entra.aadsts import EntraError

GRAPH = "https://graph.microsoft.com"
GRAPH_APP_ID = "00000003-0000-0000-c000-000000000000"
IDENTITY = ("openid", "profile", "email", "offline_access")
DELEGATED = (
    "User.Read",
    "User.Read.All",
    "User.ReadBasic.All",
    "Group.Read.All",
    "GroupMember.Read.All",
    "Mail.Read",
    "Mail.ReadBasic",
    "Mail.ReadWrite",
    "Mail.Send",
    "Mail.Read.Shared",
    "Mail.ReadBasic.Shared",
    "Mail.ReadWrite.Shared",
    "Mail.Send.Shared",
    "MailboxSettings.Read",
    "MailboxSettings.ReadWrite",
    "Calendars.Read",
    "Contacts.Read",
)
APPLICATION = (
    "User.Read.All",
    "Group.Read.All",
    "GroupMember.Read.All",
    "Mail.Read",
    "Mail.ReadBasic",
    "Mail.ReadBasic.All",
    "Mail.ReadWrite",
    "Mail.Send",
    "MailboxSettings.Read",
    "MailboxSettings.ReadWrite",
)
_USER_DEFAULT = ["User.Read", "Mail.Read"]
_SPELLINGS = {name.lower(): name for name in (*IDENTITY, *DELEGATED)}


def parse_scopes(text: str) -> list[str]:
    """Return the permissions of a `scope` parameter without resource, in Microsoft's spelling."""
    names = text.split()
    if not names:
        raise EntraError(900144, parameter="scope")
    return list(dict.fromkeys(_parse_scope(name) for name in names))


def expand_default(names: list[str]) -> list[str]:
    """Replace `.default` by what it means for a user."""
    expanded = (_USER_DEFAULT if name == ".default" else [name] for name in names)
    return list(dict.fromkeys(permission for permissions in expanded for permission in permissions))


def _parse_scope(name: str) -> str:
    resource, slash, short = name.rpartition("/")
    if slash and resource.rstrip("/").lower() not in {GRAPH, GRAPH_APP_ID}:
        raise EntraError(500011, resource=resource)
    if short == ".default":
        return short
    spelling = _SPELLINGS.get(short.lower())
    if spelling is None:
        raise EntraError(70011, scope=name)
    return spelling


def format_scopes(granted: list[str]) -> str:
    """Return the `scope` of a token response: resource permissions first, without offline_access."""
    permissions = [name for name in granted if name not in IDENTITY]
    identity = [name for name in ("openid", "profile", "email") if name in granted]
    return " ".join([*permissions, *identity])
