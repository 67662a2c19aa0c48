"""What stands in the documents of a letter, so that a reader's findings can be compared with the truth."""

from mailsim.letters.order import Order


def facts(order: Order) -> dict[str, object]:
    """The fields of the letter's document in JSON's types, empty for a letter without one.

    Amounts are strings with a decimal point, dates ISO 8601. An archive has a list of them, `documents`.
    `readable` is False where nobody can read the document without a password or at all.
    """
    from mailsim.letters import documents, invoices, notes, odd_invoices

    match order.kind:
        case "invoice-zip":
            return {"documents": [facts(inside) for inside in documents.zipped_orders(order)]}
        case "invoice-odd":
            readable = order.variant not in odd_invoices.UNREADABLE
            return {**invoices.facts(invoices.invoice(order)), "readable": readable}
        case "contract-note" | "contract-note-scan":
            return notes.facts(notes.note(order))
        case "paper":
            return {"document": order.variant, "supplier": invoices.invoice(order).supplier.name}
        case kind if kind.startswith("invoice"):
            inside = documents.forwarded_order(order) if kind == "invoice-forwarded" else order
            return invoices.facts(invoices.invoice(inside))
        case _:
            return {}
