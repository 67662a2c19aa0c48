"""Trust: after two documents that people confirmed unchanged, the next needs no review for the same reason.

It applies to uncertain values of the same supplier and layout, see `documents.supplier_trust`; `route` asks
for it last. A correction or a change of a record restarts the count. A person can switch it off per supplier.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from postroom.documents import supplier_trust
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.kinds.field_spec import FieldShape
from postroom.documents.pipelines import Pipeline, Pipelines
from postroom.documents.stored_extraction import StoredExtraction, StoredField
from postroom.documents.supplier_trust import MIN_CONFIRMED, ConfirmedReading
from postroom.errors import NotFound
from postroom.model import OrganizationId
from postroom.store import ledger, records
from postroom.store import supplier_trust as store
from postroom.store.connection import Connection
from postroom.store.ledger import NewLedgerEntry
from postroom.store.supplier_trust import ConfirmedDocument

SHOWN_LAYOUTS: Final = 10


@dataclass(frozen=True, slots=True)
class LayoutTrust:
    """How many documents of a layout people confirmed unchanged, and the fields trusted for it."""

    layout: str
    confirmed: int
    fields: Sequence[str]


@dataclass(frozen=True, slots=True)
class SupplierTrust:
    """Whether trust in a supplier is on, and what it applies to."""

    trusted: bool
    layouts: Sequence[LayoutTrust]


async def find_trusted_fields(
    connection: Connection,
    kind: DocumentKind,
    pipeline: Pipeline,
    extraction: StoredExtraction,
    issuer: Sequence[bytes],
) -> dict[str, list[UUID]]:
    """Find the uncertain fields that are trusted, each with the records that people confirmed.

    `issuer` are the digests of what identifies the supplier. All must belong to one supplier.
    """
    if extraction.is_ocr or extraction.is_exact or extraction.layout is None:
        return {}
    suppliers = await store.find_suppliers(connection, issuer)
    supplier = next(iter(suppliers), None)
    if len(suppliers) != 1 or supplier is None or not await store.is_trusted(connection, supplier):
        return {}
    readings = [
        _to_reading(document)
        for document in await store.list_confirmed(connection, supplier, [extraction.layout])
        if (document.kind, document.pipeline, document.reader)
        == (extraction.kind, pipeline.name, extraction.reader)
    ]
    return supplier_trust.find_trusted_fields(
        kind, extraction, readings, confirm_above=pipeline.confirm_above
    )


def _to_reading(document: ConfirmedDocument) -> ConfirmedReading:
    """What was read and is still in the record."""
    fields = {
        name: StoredField(
            read["value"],
            read["confidence"],
            read.get("page"),
            tuple(read["box"]) if read.get("box") else None,
            read.get("evidence", ""),
        )
        for name, read in document.read.items()
        if document.recorded.get(name) == read["value"]
    }
    return ConfirmedReading(document.record_id, fields)


async def load_trust(
    connection: Connection, supplier: UUID, kind: DocumentKind | None, pipelines: Pipelines
) -> SupplierTrust:
    """Whether a supplier is trusted, and what is trusted for each of its newest layouts."""
    layouts = await store.list_layouts(connection, supplier, limit=SHOWN_LAYOUTS)
    documents = await store.list_confirmed(connection, supplier, layouts)
    names = (*kind.required, *kind.certain) if kind else ()
    fields: dict[str, FieldShape] = {name: kind.fields[name].shape for name in names} if kind else {}
    found: list[LayoutTrust] = []
    for layout in layouts:
        of_layout = [each for each in documents if each.layout == layout]
        trusted = [
            name
            for name, shape in fields.items()
            if len({each.record_id for each in of_layout if _is_trusted(each, name, shape, pipelines)})
            >= MIN_CONFIRMED
        ]
        found.append(LayoutTrust(layout, len({each.record_id for each in of_layout}), trusted))
    return SupplierTrust(await store.is_trusted(connection, supplier), found)


def _is_trusted(document: ConfirmedDocument, name: str, shape: FieldShape, pipelines: Pipelines) -> bool:
    """Whether a value is uncertain, and in the record as it was read."""
    pipeline, read = pipelines.get(document.pipeline), document.read.get(name)
    if pipeline is None or read is None or document.recorded.get(name) != read["value"]:
        return False
    return supplier_trust.is_trustworthy(shape, read["confidence"], pipeline.confirm_above)


async def set_trust(
    connection: Connection, organization: OrganizationId, supplier: UUID, *, trusted: bool, actor: str
) -> None:
    """Switch trust in a supplier on or off. The ledger records a change.

    The lock keeps documents from being routed, and suppliers from being merged, at the same time.
    """
    await records.lock(connection)
    if not await store.has_records(connection, supplier):
        raise NotFound("There is no such supplier.")
    switch = store.trust if trusted else store.distrust
    if await switch(connection, supplier):
        entry = NewLedgerEntry(
            "SUPPLIER_TRUST_CHANGED",
            "supplier",
            str(supplier),
            actor_id=actor,
            payload={"trusted": trusted},
        )
        await ledger.append_entries(connection, organization, [entry])
