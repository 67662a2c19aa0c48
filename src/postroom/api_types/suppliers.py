"""Types of suppliers in the API."""

from datetime import datetime
from uuid import UUID

import msgspec


class CurrencyAmount(msgspec.Struct, frozen=True):
    """An exact amount as text."""

    currency: str | None
    amount: str


class SupplierResource(msgspec.Struct, frozen=True):
    """An issuer of live records. `amounts` are those of its confirmed records of the last 12 months."""

    id: UUID
    name: str | None
    vat_id: str | None
    kind: str
    records: int
    newest_on: str | None
    amounts: list[CurrencyAmount]
    newest_at: datetime
