"""$filter and $orderby on messages."""

from contextlib import ExitStack
from email.message import EmailMessage

import pytest

from simulator.microsoft_user import MicrosoftUsers


@pytest.fixture(scope="module")
def user(shared):
    """Return a user with four messages, one hour apart."""
    with ExitStack() as stack:
        shared.create("outlook", "filters@example.com")
        made = MicrosoftUsers(stack).sign_in(shared, "filters@example.com", seconds=86400)
        for number, (sender, subject, words) in enumerate(
            [
                ("Ann O'Hara <ann@example.org>", "Invoice 1", {}),
                ("bob@example.net", "Re: Invoice 1", {"read": True, "categories": ["Red", "Blue"]}),
                ("ann@example.org", "Lunch?", {"flag": "flagged"}),
                ("Carl <carl@example.net>", "Invoice 2", {"read": True, "importance": "high"}),
            ]
        ):
            message = EmailMessage()
            message["From"], message["Subject"], message["To"] = (
                sender,
                subject,
                "me@example.com, you@example.com",
            )
            message["Message-ID"] = f"<{number}@example.org>"
            message.set_content("Text.")
            if number == 3:
                message.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="a.pdf")
            number_given = shared.deliver(made.address, message.as_bytes())["id"]
            if words:
                shared.act(made.address, number_given, "mark", **words)
            shared.move_clock(3600)
        yield made


@pytest.fixture(autouse=True)
def checked(sim):
    """Check every response against the description."""


def subjects(user, **options):
    page = user.get(
        "messages", **{f"${name}": text for name, text in options.items()}, **{"$select": "subject"}
    )
    return [one["subject"] for one in page["value"]]


@pytest.mark.parametrize(
    "where, found",
    [
        ("isRead eq false", ["Lunch?", "Invoice 1"]),
        ("isRead", ["Invoice 2", "Re: Invoice 1"]),
        ("isRead ne true and startswith(subject,'Inv')", ["Invoice 1"]),
        ("startswith(subject, 'invoice')", ["Invoice 2", "Invoice 1"]),
        ("contains(subject,'nvoice 1')", ["Re: Invoice 1", "Invoice 1"]),
        ("contains(tolower(subject),'re:') eq true", ["Re: Invoice 1"]),
        ("endswith(subject,'2')", ["Invoice 2"]),
        ("not contains(subject,'Invoice')", ["Lunch?"]),
        ("not (isRead eq true or subject eq 'Lunch?')", ["Invoice 1"]),
        ("from/emailAddress/address eq 'ANN@example.org'", ["Lunch?", "Invoice 1"]),
        ("from/emailAddress/name eq 'Ann O''Hara'", ["Invoice 1"]),
        ("subject eq 'Invoice 2' or subject eq 'Lunch?'", ["Invoice 2", "Lunch?"]),
        ("internetMessageId eq '<2@example.org>'", ["Lunch?"]),
        ("hasAttachments eq true", ["Invoice 2"]),
        ("importance eq 'high'", ["Invoice 2"]),
        ("flag/flagStatus eq 'flagged'", ["Lunch?"]),
        ("categories/any(c:c eq 'Red')", ["Re: Invoice 1"]),
        ("categories/any(c: c eq 'Green')", []),
        ("toRecipients/any(r:r/emailAddress/address eq 'you@example.com')",
         ["Invoice 2", "Lunch?", "Re: Invoice 1", "Invoice 1"]),
        ("receivedDateTime ge 2026-03-02T11:00:00Z", ["Invoice 2", "Lunch?"]),
        ("receivedDateTime gt 2026-03-02T11:00:00Z", ["Invoice 2"]),
        ("receivedDateTime lt 2026-03-02T12:00:00+02:00", ["Invoice 1"]),
        ("receivedDateTime ge 2026-03-02T10:00:00Z and receivedDateTime le 2026-03-02T11:00:00.0000000Z",
         ["Lunch?", "Re: Invoice 1"]),
        ("receivedDateTime ge 2030-01-01T00:00:00Z", []),
        # "Get all emails received in April", https://learn.microsoft.com/graph/query-parameters; it works:
        # microsoftgraph/microsoft-graph-docs#6907
        ("ReceivedDateTime ge 2026-03-02 and receivedDateTime lt 2026-03-03",
         ["Invoice 2", "Lunch?", "Re: Invoice 1", "Invoice 1"]),
        ("receivedDateTime lt 2026-03-02", []),
        ("from ne null and isDraft eq false and startswith(subject,'L')", ["Lunch?"]),
    ],
)  # fmt: skip
def test_a_filter_selects_the_matching_messages(user, where, found):
    assert subjects(user, filter=where) == found


def test_a_conversation_is_found_by_its_id(user):
    one = user.get("messages", **{"$filter": "subject eq 'Lunch?'"})["value"][0]
    assert subjects(user, filter=f"conversationId eq '{one['conversationId']}'") == ["Lunch?"]


@pytest.mark.parametrize(
    "where", ["year(receivedDateTime) eq 2026", "length(subject) gt 3", "contains(trim(subject),'a')"]
)
def test_a_function_of_odata_that_is_not_simulated_says_so(user, where):
    """They are canonical functions of "OData 4.0, part 2: URL conventions", section 5.1.1.4 and following."""
    error = user.expect_error(501, "messages", params={"$filter": where})
    assert "mailsim does not simulate" in error["message"]


@pytest.mark.parametrize(
    "order, found",
    [
        ("receivedDateTime", ["Invoice 1", "Re: Invoice 1", "Lunch?", "Invoice 2"]),
        ("receivedDateTime desc", ["Invoice 2", "Lunch?", "Re: Invoice 1", "Invoice 1"]),
        ("subject", ["Invoice 1", "Invoice 2", "Lunch?", "Re: Invoice 1"]),
        (
            "from/emailAddress/address desc, subject asc",
            ["Invoice 2", "Re: Invoice 1", "Invoice 1", "Lunch?"],
        ),
    ],
)
def test_messages_are_ordered_as_requested(user, order, found):
    assert subjects(user, orderby=order) == found


def test_filter_must_begin_with_the_properties_of_orderby(user):
    fine = "receivedDateTime ge 2026-01-01T00:00:00Z and isRead eq true"
    assert subjects(user, filter=fine, orderby="receivedDateTime") == ["Re: Invoice 1", "Invoice 2"]
    for where in ("isRead eq true", "isRead eq true and receivedDateTime ge 2026-01-01T00:00:00Z"):
        wrong = {"$filter": where, "$orderby": "receivedDateTime desc"}
        assert user.expect_error(400, "messages", params=wrong)["code"] == "InefficientFilter"


@pytest.mark.parametrize(
    "where",
    [
        "isRead eq 'yes'", "isRead eq", "eq true", "(isRead eq true", "isRead eq true)", "subject eq true",
        "receivedDateTime ge 'yesterday'", "receivedDateTime ge 2026-01-01T00:00:00",
        "receivedDateTime ge 2026-13-01T00:00:00Z",
        "nothing eq 1", "from/emailAddress/zip eq '1'", "categories eq 'Red'", "categories/any(c:d eq 'Red')",
        "subject/any(c:c eq 'Red')", "contains(isRead,'x')", "contains(subject)", "startswith(subject,1)",
        "subject eq 'open", 'subject eq "double"', "§$%&", "isRead eq true and", "not", "((((", "in ('a')",
        "categories/any(c:categories/any(d:d eq 'x'))",
        "(" * 200 + "isRead" + ")" * 200, "not " * 300 + "isRead",
    ],
)  # fmt: skip
def test_an_invalid_filter_is_a_bad_request(user, where):
    assert user.expect_error(400, "messages", params={"$filter": where})["code"] in {
        "BadRequest",
        "RequestBroker--ParseUri",
    }


@pytest.mark.parametrize(
    "order", ["nothing", "subject sideways", "subject desc desc", ",", "body", "toRecipients"]
)
def test_an_invalid_orderby_is_a_bad_request(user, order):
    user.expect_error(400, "messages", params={"$orderby": order})
