"""Types of suppliers in the API."""

from datetime import datetime
from uuid import UUID

import msgspec


class CurrencyAmount(msgspec.Struct, frozen=True):
    """An exact amount as text."""

    currency: str | None
    amount: str


class SupplierResource(msgspec.Struct, frozen=True):
    """An issuer of confirmed or reopened records. `amounts`: of the confirmed ones of the last 12 months."""

    id: UUID
    name: str | None
    vat_id: str | None
    kind: str
    records: int
    newest_on: str | None
    amounts: list[CurrencyAmount]
    newest_at: datetime


class LayoutTrustResource(msgspec.Struct, frozen=True):
    """A layout of a supplier's documents. `confirmed`: how many of them people confirmed unchanged.

    In the next document, `fields` need no review if they are no less certain than in those.
    """

    layout: str
    confirmed: int
    fields: list[str]


class SupplierTrustResource(msgspec.Struct, frozen=True):
    """Whether trust in a supplier is on, and what it applies to."""

    trusted: bool
    layouts: list[LayoutTrustResource]


class SupplierTrustChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to switch trust on or off."""

    trusted: bool
