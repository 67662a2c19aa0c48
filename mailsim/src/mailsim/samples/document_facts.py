"""What stands in the documents of a letter, so that a reader's findings can be compared with the truth."""

from mailsim.samples.message_spec import MessageSpec


def facts(order: MessageSpec) -> dict[str, object]:
    """The fields of the letter's document in JSON's types, empty for a letter without one.

    Amounts are strings with a decimal point, dates ISO 8601. An archive has a list of them, `documents`.
    `readable` is False where nobody can read the document without a password or at all.
    """
    from mailsim.samples import contract_notes, document_messages, invoices, unusual_invoices

    match order.kind:
        case "invoice-zip":
            return {"documents": [facts(inside) for inside in document_messages.zipped_orders(order)]}
        case "invoice-odd":
            readable = order.variant not in unusual_invoices.UNREADABLE
            return {**invoices.facts(invoices.invoice(order)), "readable": readable}
        case "contract-note" | "contract-note-scan":
            return contract_notes.facts(contract_notes.note(order))
        case "paper":
            return {"document": order.variant, "supplier": invoices.invoice(order).supplier.name}
        case kind if kind.startswith("invoice"):
            inside = document_messages.forwarded_order(order) if kind == "invoice-forwarded" else order
            return invoices.facts(invoices.invoice(inside))
        case _:
            return {}
