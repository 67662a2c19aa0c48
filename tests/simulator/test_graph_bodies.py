"""Conversion of message bodies, and pages of messages."""

import pytest

import growth
from mailsim.clock import Clock
from mailsim.graph import bodies, message_json
from mailsim.graph.ids import GraphIds
from mailsim.graph.message_json import MessagePreferences, MessageView
from mailsim.registry import Registry


@pytest.mark.parametrize(
    "text, shown",
    [
        ("a\r\nb", "a<br>\r\nb"),
        ("a\nb", "a<br>\r\nb"),
        ("a\r\nb\nc", "a<br>\r\nb<br>\r\nc"),
        ("1 < 2 && 3 > 2", "1 &lt; 2 &amp;&amp; 3 &gt; 2"),
        ("&lt;", "&amp;lt;"),
        ('"it\'s"', '"it\'s"'),
        ("", ""),
    ],
)
def test_plain_text_becomes_html_line_by_line(text, shown):
    assert f'<div class="PlainText">{shown}</div>' in bodies.text_to_html(text)


@pytest.mark.parametrize(
    "html",
    [
        "<p>x</p>",
        "<HTML><BODY>x</BODY></HTML>",
        "<html lang=de><body>x</body></html>",
        '<html><head><META charset="iso-8859-1"><title>t</title></head><body>x</body></html>',
        "<html><head><meta name=a><meta content='text/html; charset=x'></head><body>x</body></html>",
        "<html><body><header>x</header></body></html>",
        "<html><head",
    ],
)
def test_a_page_declares_utf_8_once_and_in_its_head(html):
    page = bodies.complete_page(html)
    assert page.lower().count("charset") == 1
    assert "charset=utf-8" in page
    assert page.lower().index("<head") < page.index("charset=utf-8")
    assert "<header>x</header>" in page or "<header" not in html


@pytest.mark.parametrize(
    "html, shown",
    [
        ("<SCRIPT>evil()</SCRIPT>ok", "ok"),
        ("<p ONCLICK=evil()>ok</p>", "<p>ok</p>"),
        ('<a href="JavaScript:evil()">ok</a>', '<a href="evil()">ok</a>'),
        ("<iframe src=evil()></iframe>ok", "ok"),
        ("\u00fc<p onload = 'evil()'>ok", "\u00fc<p>ok"),
    ],
)
def test_active_content_is_removed_in_any_case(html, shown):
    assert bodies.sanitize_html(html) == shown


def test_harmless_markup_is_unchanged():
    html = "<p style='color:red'>Station, Confirmation = on; Ünïcode <b>İ</b></p>"
    assert bodies.sanitize_html(html) == html


def test_a_page_of_messages_equals_the_single_messages():
    mailbox = Registry(3, Clock(manual=True)).create_mailbox("outlook", "a@example.com", messages=150)
    ids = GraphIds(mailbox, "0" * 36)

    def views():
        for number in range(150):
            state = mailbox.state(number)
            assert state is not None
            yield MessageView(mailbox, number, state, ids, MessagePreferences())

    together = [shown for _, shown in message_json.to_json_many(views(), message_json.DEFAULT, typed=True)]
    assert together == [message_json.to_json(view, message_json.DEFAULT, typed=True) for view in views()]


@pytest.mark.parametrize("unit", ["<style>", "<script ", "<!--", "<a ", "<br ", "<"])
@pytest.mark.parametrize("convert", [bodies.html_to_text, bodies.sanitize_html, bodies.preview_html])
def test_html_that_is_never_closed_is_converted_in_linear_time(convert, unit):
    growth.assert_linear(lambda count: unit * count, convert, start=2000)
