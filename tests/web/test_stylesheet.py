"""The stylesheet keeps WCAG AA, 4.5 to 1, for every text on every background, light and dark."""

import re

import pytest

from postroom.web.pages import HERE

CSS = (HERE / "static/style.css").read_text()
LIGHT, DARK = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", part)) for part in CSS.split("@media", 1))
PAIRS = [(text, ground) for ground in ("ground", "surface") for text in ("ink", "quiet", "link", "bad")] + [
    ("ink", "good-ground"),
    ("good", "good-ground"),
    ("ink", "bad-ground"),
    ("bad", "bad-ground"),
]


def luminance(colour):
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("text, ground", PAIRS)
def test_text_has_enough_contrast(theme, text, ground):
    bright, dark = sorted((luminance(theme[text]), luminance(theme[ground])), reverse=True)
    assert (bright + 0.05) / (dark + 0.05) >= 4.5


def test_both_themes_define_the_same_colours():
    assert set(LIGHT) == set(DARK)
