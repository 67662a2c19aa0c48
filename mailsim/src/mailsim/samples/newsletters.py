"""Newsletters: lists with one-click unsubscription, tracking links and a table layout."""

import functools

from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import EncodedPart, letter
from mailsim.samples.personal_messages import HTML_HEAD, alternative, text_part, wanted
from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom
from mailsim.samples.text_blocks import blocks, escaped, quoted_printable


@functools.cache
def _articles(language: str) -> tuple[bytes, ...]:
    tongue = PHRASES[language]
    made: list[bytes] = []
    for number, text in enumerate(blocks(language).texts):
        headline = escaped(tongue.headlines[number % len(tongue.headlines)])
        made.append(quoted_printable(
            '<tr><td style="padding:16px 24px;border-bottom:1px solid #dddddd">\n'
            f'<h2 style="font-size:18px;color:#224466">{headline}</h2>\n<p>{escaped(text)}</p>\n'
            f'<a href="https://news.example.com/a/{number}?utm_source=newsletter" style="color:#c30">'
            f"{tongue.more}</a>\n"
            "</td></tr>\n"
        ))  # fmt: skip
    return tuple(made)


def newsletter(order: MessageSpec) -> bytes:
    dice = SeededRandom(order.seed, 11)
    domain = order.sender[1].rpartition("@")[2]
    token = f"{dice.roll():016x}"
    label = PHRASES[order.language].unsubscribe
    away = f"https://news.{domain}/unsubscribe?u={token}"
    extra = (
        f"List-Id: <news.{domain}>\r\n"
        f"List-Unsubscribe: <mailto:leave-{token}@{domain}>,\r\n <{away}>\r\n"
        "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"
        "Precedence: bulk\r\n"
        f"X-Campaign: {dice.digits(6)}\r\n"
    )
    size = wanted(order) if order.size is not None else 6000 + dice.below(6000)
    top = quoted_printable(
        '<!DOCTYPE html>\n<html><head><meta charset="utf-8"></head>\n<body style="background:#f4f4f4">\n'
        '<table width="600" align="center" style="background:#ffffff;font-family:Arial">\n'
        f"<tr><td><h1>{escaped(order.title)}</h1>\n"
        "</td></tr>\n"
    )
    bottom = quoted_printable(
        f'<tr><td style="font-size:11px"><a href="{away}">{label}</a></td></tr></table>\n'
        f'<img src="https://news.{domain}/open/{token}.gif" width="1" height="1" alt="">\n</body></html>\n'
    )
    shelf, found, left = _articles(order.language), [top], size * 4 // 5 - len(top) - len(bottom)
    while left > 0:
        found.append(dice.pick(shelf))
        left -= len(found[-1])
    found.append(bottom)
    html = EncodedPart(HTML_HEAD, b"".join(found))
    return letter(order, alternative(order, text_part(order, size // 5), html), extra)
