"""What stands in the documents of a letter, so that a reader's findings can be compared with the truth."""

from mailsim.letters.order import Order


def facts(order: Order) -> dict[str, object]:
    """The fields of the letter's document in JSON's types, empty for a letter without one.

    Amounts are strings with a decimal point, dates ISO 8601. An archive has a list of them, `documents`.
    """
    from mailsim.letters import documents, invoices, notes

    match order.kind:
        case "invoice" | "invoice-scan" | "invoice-facturx" | "invoice-xrechnung":
            return invoices.facts(invoices.invoice(order))
        case "invoice-forwarded":
            return invoices.facts(invoices.invoice(documents.forwarded_order(order)))
        case "invoice-zip":
            return {"documents": [facts(inside) for inside in documents.zipped_orders(order)]}
        case "contract-note" | "contract-note-scan":
            return notes.facts(notes.note(order))
        case _:
            return {}
