"""The true field values of the document in a message, as a reference for tests of extraction.

They come from the data of invoices and contract notes, not from the bytes.
"""

from mailsim.samples.message_spec import MessageSpec


def get_document_facts(spec: MessageSpec) -> dict[str, object]:
    """Return the fields of the message's document in JSON types; empty without a document.

    Amounts are strings with a decimal point, dates ISO 8601. An archive has a list, `documents`.
    `readable` is False if the document is broken or needs a password.
    """
    from mailsim.samples import contract_notes, document_messages, invoices, unusual_invoices

    match spec.kind:
        case "invoice-zip":
            return {
                "documents": [
                    get_document_facts(inner_spec) for inner_spec in document_messages.list_zipped_specs(spec)
                ]
            }
        case "invoice-odd":
            readable = spec.variant not in unusual_invoices.UNREADABLE
            return {**invoices.to_facts(invoices.make_invoice(spec)), "readable": readable}
        case "contract-note" | "contract-note-scan":
            return contract_notes.to_facts(contract_notes.make_contract_note(spec))
        case "other-document":
            return {"document": spec.variant, "supplier": invoices.make_invoice(spec).supplier.name}
        case kind if kind.startswith("invoice"):
            inner_spec = document_messages.make_forwarded_spec(spec) if kind == "invoice-forwarded" else spec
            return invoices.to_facts(invoices.make_invoice(inner_spec))
        case _:
            return {}
