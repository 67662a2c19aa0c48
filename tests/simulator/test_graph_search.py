"""`$search` over Graph: the Keyword Query Language that Microsoft documents for message collections.

"Use the $search query parameter", https://learn.microsoft.com/graph/search-query-parameter
"Keyword Query Language (KQL) syntax reference",
https://learn.microsoft.com/sharepoint/dev/general-development/keyword-query-language-kql-syntax-reference
"""

from contextlib import ExitStack
from email.message import EmailMessage

import pytest

from simulator.microsoft_user import MicrosoftUsers


def _make_message(subject, text, attachment="", html="", **headers):
    message = EmailMessage()
    message["Subject"] = subject
    message["From"] = "Ann Example <ann@example.org>"
    message["To"] = "Jane Doe <jane@example.com>"
    message["Date"] = "Mon, 02 Mar 2026 09:00:00 +0000"
    for name, value in headers.items():
        del message[name]
        message[name] = value
    message.set_content(text)
    if html:
        message.set_content(html, subtype="html")
    if attachment:
        message.add_attachment(b"x" * 5000, maintype="application", subtype="pdf", filename=attachment)
    return message.as_bytes()


MESSAGES = {
    "invoice": _make_message("Invoice 77 for March", "Please pay the total.", "api-catalog.pdf"),
    "lunch": _make_message(
        "Lunch", "A full English breakfast", From="Ben <ben@example.net>", Cc="dana@example.com"
    ),
    "report": _make_message("Quarterly report", "", html="<p>Total <b>revenue</b></p>", Importance="high"),
    "old": _make_message("Archive", "Voices of the past", Date="Fri, 23 Jan 2026 12:00:00 +0000"),
}


@pytest.fixture(scope="module")
def searched(shared):
    with ExitStack() as stack:
        address = "searched@example.com"
        user = MicrosoftUsers(stack).connect(shared, address, "Mail.ReadWrite")
        names = {}
        for name, raw in MESSAGES.items():
            shared.deliver(address, raw)
            names[user.get("messages")["value"][0]["id"]] = name
        yield user, names


@pytest.mark.parametrize(
    "query, wanted",
    [
        ("pay", "invoice"),
        ("PAY", "invoice"),
        ("html", ""),
        ("emailAddress", ""),
        ("voice", ""),
        ("voic*", "old"),
        ("invoi*", "invoice"),
        ("oice*", ""),
        ("revenue", "report"),
        ("full english", "lunch"),
        ("english full", "lunch"),
        ('\\"full english\\"', "lunch"),
        ('\\"english full\\"', ""),
        ("total", "invoice report"),
        ("total AND revenue", "report"),
        ("lunch OR revenue", "lunch report"),
        ("total NOT revenue", "invoice"),
        ("total -revenue", "invoice"),
        ("NOT total", "lunch old"),
        ("revenue OR pay AND march", "invoice report"),
        ("(revenue OR pay) AND march", "invoice"),
        ("lunch or revenue", ""),
        ("subject:invoice", "invoice"),
        ("subject:invoice subject:lunch", "invoice lunch"),
        ("subject:invoice from:ben", ""),
        ("subject:invoice OR from:ben", "invoice lunch"),
        ("subject:(invoice OR lunch)", "invoice lunch"),
        ("subject:pay", ""),
        ("subject: invoice", ""),
        ("subject<>invoice", "lunch report old"),
        ("body:breakfast", "lunch"),
        ("from:ben", "lunch"),
        ("from:ben@example.net", "lunch"),
        ("from:example.net", "lunch"),
        ("to:jane", "invoice lunch report old"),
        ('to:\\"Jane Doe\\"', "invoice lunch report old"),
        ("cc:dana", "lunch"),
        ("recipients:dana", "lunch"),
        ("participants:ben", "lunch"),
        ("bcc:dana", ""),
        ("hasAttachment:true", "invoice"),
        ("hasAttachments:false", "lunch report old"),
        ("attachment:api-catalog.pdf", "invoice"),
        ("attachment:catal*", "invoice"),
        ("importance:high", "report"),
        ("importance:medium", "invoice lunch old"),
        ("size>5000", "invoice"),
        ("size<=5000", "lunch report old"),
        ("size:1..5000", "lunch report old"),
        ("received>=2026-03-02", "invoice lunch report old"),
        ("received>2026-03-02", ""),
        ("received:today", "invoice lunch report old"),
        ("received<2026-03-02T09:00:01Z", "invoice lunch report old"),
        ("sent:01/23/2026", "old"),
        ("sent:2026-01-01..2026-01-31", "old"),
        ('sent:\\"this month\\"', "invoice lunch report"),
        ("sent<2026-02-01", "old"),
        ("sent>=2026-02-01 AND from:ann", "invoice report"),
        ("kind:email", "invoice lunch report old"),
        ("kind:meetings", ""),
    ],
)
def test_queries_find(sim, searched, query, wanted):
    user, names = searched
    found = user.pages("messages", **{"$search": f'"{query}"', "$select": "subject"})
    assert {names[message["id"]] for message in found} == set(wanted.split())


@pytest.mark.parametrize(
    "query, wanted", [("lunch", "lunch"), ('"subject:lunch" OR "subject:report"', "lunch report")]
)
def test_words_need_no_quotes_and_clauses_can_be_combined(sim, searched, query, wanted):
    user, names = searched
    assert {names[message["id"]] for message in user.pages("messages", **{"$search": query})} == set(
        wanted.split()
    )


@pytest.mark.parametrize("query", ["from:ann", '"open', '""', '"AND"', '"(((("', '"' + "(" * 60 + 'a"'])
def test_invalid_queries_are_rejected(sim, searched, query):
    user, _ = searched
    assert user.expect_error(400, "messages", params={"$search": query})["code"] == "BadRequest"


@pytest.mark.parametrize("count, wanted", [(1200, "lunch"), (1201, "report invoice old")])
def test_any_number_of_negations_is_evaluated(sim, searched, count, wanted):
    user, names = searched
    found = user.pages("messages", **{"$search": f'"{"NOT " * count}subject:lunch"', "$select": "subject"})
    assert {names[message["id"]] for message in found} == set(wanted.split())


def test_results_are_sorted_by_the_time_they_were_sent(sim, searched):
    user, names = searched
    found = [names[message["id"]] for message in user.pages("messages", **{"$search": '"to:jane"'})]
    assert found[-1] == "old"


def test_results_are_paged_and_skipped(sim, searched):
    user, _ = searched
    query = {"$search": '"to:jane"', "$select": "subject"}
    everything = [message["id"] for message in user.pages("messages", **query)]
    assert [message["id"] for message in user.pages("messages", **query, **{"$top": 1})] == everything
    assert [message["id"] for message in user.pages("messages", **query, **{"$skip": 1})] == everything[1:]
    assert [
        message["id"] for message in user.pages("messages", **query, **{"$skip": 1, "$top": 1})
    ] == everything[1:]
    assert user.get("messages", **query, **{"$skip": 99})["value"] == []
    in_folder = user.pages("mailFolders/inbox/messages", **query)
    assert [message["id"] for message in in_folder] == everything
