"""What Outlook makes of a message's text, and how pages of messages are put together."""

import pytest

from mailsim.clock import Clock
from mailsim.graph import bodies, wire
from mailsim.graph.ids import Ids
from mailsim.graph.wire import Preferences, View
from mailsim.world import World


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
    assert f'<div class="PlainText">{shown}</div>' in bodies.from_text(text)


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
    page = bodies.whole(html)
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
def test_what_could_run_is_taken_out_in_any_case(html, shown):
    assert bodies.safe(html) == shown


def test_harmless_mark_up_stays_as_it_is():
    html = "<p style='color:red'>Station, Confirmation = on; Ünïcode <b>İ</b></p>"
    assert bodies.safe(html) == html


def test_a_page_of_messages_says_what_each_says_alone():
    mailbox = World(3, Clock(manual=True)).create("outlook", "a@example.com", messages=150)
    ids = Ids(mailbox, "0" * 36)

    def views():
        for number in range(150):
            state = mailbox.state(number)
            assert state is not None
            yield View(mailbox, number, state, ids, Preferences())

    together = [shown for _, shown in wire.messages(views(), wire.DEFAULT, typed=True)]
    assert together == [wire.message(view, wire.DEFAULT, typed=True) for view in views()]
