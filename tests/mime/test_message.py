"""Messages become typed values, compared with parsers that others wrote."""

import email
import email.policy
from email.message import EmailMessage

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from example_counts import examples
from mailsim import mime as referee
from mailsim import samples
from mailsim.control.truth import list_attachments
from mailsim.samples import MessageSpec, message_kinds
from postroom.mime import parse

MESSAGE_KINDS = [(kind, variant) for kind, each in message_kinds.KINDS.items() for variant in each.variants]

FORWARDED = b"""From: a@example.org\r
To: b@example.org\r
Subject: Fwd: bill\r
Content-Type: multipart/mixed; boundary=out\r
\r
--out\r
Content-Type: multipart/alternative; boundary=alt\r
\r
--alt\r
Content-Type: text/plain\r
\r
see below\r
--alt\r
Content-Type: text/html\r
\r
<p>see <b>below</b></p>\r
--alt--\r
--out\r
Content-Type: message/rfc822\r
\r
From: supplier@example.net\r
Subject: bill\r
Content-Type: multipart/mixed; boundary=in\r
\r
--in\r
\r
our bill\r
--in\r
Content-Type: application/pdf; name=bill.pdf\r
Content-Transfer-Encoding: base64\r
\r
JVBERi0=\r
--in--\r
--out--\r
"""


@pytest.mark.parametrize("kind, variant", MESSAGE_KINDS)
def test_attachments_of_every_kind_of_message_have_gmails_part_numbers(kind, variant):
    raw = samples.write_message(
        MessageSpec(seed=7, kind=kind, variant=variant, size=900_000 if kind == "big" else None)
    )
    message = parse(raw)
    found = [(each.part, each.media_type, each.size, each.content) for each in message.walk_attachments()]
    expected = [
        (place, part.content_type, len(part.content), part.content)
        for place, part, _ in list_attachments(referee.parse(raw))
    ]
    assert found == expected
    assert all(b"".join(each.pieces()) == each.content for each in message.walk_attachments())
    assert kind == "malformed" or message.defects == ()


def test_an_attached_message_is_an_item_whose_attachments_extend_its_part():
    message = parse(FORWARDED)
    [item] = message.attachments
    assert (item.part, item.kind, item.media_type) == ("1", "item", "message/rfc822")
    assert item.content.startswith(b"From: supplier@example.net\r\n")
    assert item.attached_message.head.subject == "bill"
    assert item.attached_message.body_plain == "our bill"
    assert [each.part for each in message.walk_attachments()] == ["1", "1.0.1"]
    assert [each.content for each in message.walk_attachments()][1] == b"%PDF-"


def test_each_form_of_an_alternative_is_used_once_and_the_snippet_is_text():
    message = parse(FORWARDED)
    assert (message.body_plain, message.body_html) == ("see below", "<p>see <b>below</b></p>")
    assert message.snippet == message.text == "see below"


def test_without_a_plain_body_the_text_comes_from_the_html():
    html = (
        "<head><title>x</title></head><style>p{}</style><p>Dear&nbsp;all,</p><!-- no -->we <b>meet</b><br>now"
    )
    message = parse(b"Content-Type: text/html; charset=utf-8\r\n\r\n" + html.encode())
    assert message.body_plain is None
    assert message.text == "Dear all,\nwe meet\nnow"
    assert message.snippet == "Dear all, we meet now"


def test_all_texts_between_attachments_are_collected():
    parts = b"--b\n\none\n--b\nContent-Type: image/png\n\nP\n--b\n\ntwo\n--b--\n"
    message = parse(b"Content-Type: multipart/mixed; boundary=b\n\n" + parts)
    assert message.body_plain == "one\ntwo"
    assert [(each.part, each.file_name) for each in message.attachments] == [("1", None)]


@pytest.mark.parametrize(
    "disposition, content_id, related, inline",
    [
        ("inline", "<a@x>", True, True),
        ("", "<a@x>", True, True),
        ("inline", "<a@x>", False, True),
        ("inline", "", False, False),
        ("attachment", "<a@x>", True, False),
    ],
)
def test_attachments_shown_in_the_body_are_inline(disposition, content_id, related, inline):
    head = (
        f"Content-Type: image/png; name=a.png\nContent-ID: {content_id}\nContent-Disposition: {disposition}"
    )
    kind = "related" if related else "mixed"
    raw = f"Content-Type: multipart/{kind}; boundary=b\n\n--b\n\nhi\n--b\n{head}\n\nP\n--b--\n".encode()
    [picture] = parse(raw).attachments
    assert picture.is_inline is inline
    assert picture.file_name == "a.png"
    assert picture.content_id == (content_id.strip("<>") or None)
    assert parse(raw).has_attachments is not inline


def test_an_invitation_without_a_name_is_a_calendar_and_a_named_one_is_a_file():
    message = parse(samples.write_message(MessageSpec(seed=3, kind="meeting", variant="request")))
    assert message.calendar.startswith("BEGIN:VCALENDAR")
    attached = parse(samples.write_message(MessageSpec(seed=3, kind="attachment", variant="ics")))
    assert attached.calendar is None
    assert [each.file_name.endswith(".ics") for each in attached.attachments] == [True]


def test_a_message_that_is_one_file_has_it_at_the_empty_part():
    raw = b"Content-Type: application/pdf; name=a.pdf\nContent-Transfer-Encoding: base64\n\nJVBERi0=\n"
    [file] = parse(raw).attachments
    assert (file.part, file.content, parse(raw).body_plain) == ("", b"%PDF-", None)


@pytest.mark.parametrize(
    "charset, data, text",
    [
        ("us-ascii", "Größe".encode(), "Größe"),
        ("iso-8859-1", "120 €".encode("cp1252"), "120 €"),
        ("utf-8", "Größe".encode("cp1252"), "Größe"),
        ("utf-8", "Größe für Straße".encode()[:-1] + b"\xff", "Größe für Straß\ufffd"),
        ("gb2312", "镕基".encode("gb18030"), "镕基"),
        ("no-such-charset", "Größe".encode(), "Größe"),
        ("unicode_escape", rb"\u0041", r"\u0041"),
        ("hex", b"4142", "4142"),
        ("utf-7", b"+2AA-", "\ufffd"),
        ("utf-8", b"a\x00b", "a\ufffdb"),
    ],
)
def test_text_is_decoded_as_intended_and_can_be_stored(charset, data, text):
    raw = f"Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: 8bit\n\n".encode() + data
    assert parse(raw).body_plain == text


# What a mail program of our time writes, read back by the standard library and by us.
NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=20
)
WORDS = NAMES.map(lambda text: " ".join(text.split())).filter(bool)
ADDRESSES = st.from_regex(r"[a-z][a-z0-9.+-]{0,10}[a-z]@[a-z]{1,10}\.example", fullmatch=True)
FILES = st.tuples(WORDS, st.binary(max_size=200))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(WORDS, ADDRESSES), min_size=1, max_size=4),
    WORDS,
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=200),
    st.lists(FILES, max_size=3),
)
def test_generated_mail_is_parsed_like_the_standard_library_does(to, subject, body, files):
    written = EmailMessage()
    written["Subject"] = subject
    written.set_content(body)
    for name, data in files:
        written.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    # Folded by the library, a list of encoded names may lose a comma; so this line is not.
    line = ", ".join(email.utils.formataddr(person) for person in to)
    raw = f"To: {line}\r\n".encode() + written.as_bytes(policy=email.policy.SMTP)

    message = parse(raw)
    theirs = email.message_from_bytes(raw, policy=email.policy.default)
    assert message.head.subject == theirs["subject"].strip()
    named = [(each.display_name, each.addr_spec) for each in theirs["to"].addresses]
    assert [(each.name, each.address) for each in message.head.to] == [
        (" ".join(name.split()), address) for name, address in named
    ]
    assert message.body_plain.replace("\r\n", "\n").rstrip("\n") == body.rstrip("\n")
    assert [each.content for each in message.attachments] == [data for _, data in files]
    assert [each.file_name for each in message.attachments] == [
        (part.get_filename() or "").strip() for part in theirs.iter_attachments()
    ]


@example([(", \\", "aa@a.example")])
@given(st.lists(st.tuples(st.text('abc ,.()"\\', max_size=8), ADDRESSES), min_size=1, max_size=4))
def test_address_lists_that_the_standard_library_writes_are_read_back(people):
    """Compared with what was written: what the library's own parser returns depends on its patch version."""
    line = ", ".join(email.utils.formataddr(person) for person in people)
    found = parse(f"To: {line}\n\n".encode()).head.to
    expected = [(" ".join(name.split()), address) for name, address in people]
    assert [(each.name, each.address) for each in found] == expected
