"""A token source that always returns one given access token: after a login, or for a disconnect."""

from dataclasses import dataclass

from postroom.model import Secret


@dataclass(frozen=True)
class FixedToken:
    """An access token that cannot be refreshed. If it is rejected, the call fails."""

    token: Secret

    async def get_token(self) -> Secret:
        return self.token

    async def replace_rejected(self, rejected: Secret) -> Secret:
        return rejected

    async def find_newer(self, denied: Secret) -> Secret | None:
        del denied
        return None
