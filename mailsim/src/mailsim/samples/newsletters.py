"""Writer of newsletters: list headers with one-click unsubscribe, tracking links and a table layout."""

import functools

from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import EncodedPart, build_message
from mailsim.samples.personal_messages import HTML_HEAD, choose_body_size, make_alternative, make_text_part
from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom
from mailsim.samples.text_blocks import encode_quoted_printable, escape_html, get_text_blocks


@functools.cache
def _encode_articles(language: str) -> tuple[bytes, ...]:
    phrases = PHRASES[language]
    articles: list[bytes] = []
    for number, text in enumerate(get_text_blocks(language).texts):
        headline = escape_html(phrases.headlines[number % len(phrases.headlines)])
        articles.append(encode_quoted_printable(
            '<tr><td style="padding:16px 24px;border-bottom:1px solid #dddddd">\n'
            f'<h2 style="font-size:18px;color:#224466">{headline}</h2>\n<p>{escape_html(text)}</p>\n'
            f'<a href="https://news.example.com/a/{number}?utm_source=newsletter" style="color:#c30">'
            f"{phrases.more}</a>\n"
            "</td></tr>\n"
        ))  # fmt: skip
    return tuple(articles)


def write_newsletter(spec: MessageSpec) -> bytes:
    rng = SeededRandom(spec.seed, 11)
    domain = spec.sender[1].rpartition("@")[2]
    token = f"{rng.next_bits():016x}"
    label = PHRASES[spec.language].unsubscribe
    unsubscribe_url = f"https://news.{domain}/unsubscribe?u={token}"
    extra = (
        f"List-Id: <news.{domain}>\r\n"
        f"List-Unsubscribe: <mailto:leave-{token}@{domain}>,\r\n <{unsubscribe_url}>\r\n"
        "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"
        "Precedence: bulk\r\n"
        f"X-Campaign: {rng.digits(6)}\r\n"
    )
    size = choose_body_size(spec) if spec.size is not None else 6000 + rng.below(6000)
    top = encode_quoted_printable(
        '<!DOCTYPE html>\n<html><head><meta charset="utf-8"></head>\n<body style="background:#f4f4f4">\n'
        '<table width="600" align="center" style="background:#ffffff;font-family:Arial">\n'
        f"<tr><td><h1>{escape_html(spec.title)}</h1>\n"
        "</td></tr>\n"
    )
    bottom = encode_quoted_printable(
        f'<tr><td style="font-size:11px"><a href="{unsubscribe_url}">{label}</a></td></tr></table>\n'
        f'<img src="https://news.{domain}/open/{token}.gif" width="1" height="1" alt="">\n</body></html>\n'
    )
    articles, body, bytes_left = (
        _encode_articles(spec.language),
        [top],
        size * 4 // 5 - len(top) - len(bottom),
    )
    while bytes_left > 0:
        body.append(rng.pick(articles))
        bytes_left -= len(body[-1])
    body.append(bottom)
    html = EncodedPart(HTML_HEAD, b"".join(body))
    return build_message(spec, make_alternative(spec, make_text_part(spec, size // 5), html), extra)
