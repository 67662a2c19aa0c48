import pytest
from starlette.requests import Request

from postroom.web import origin

COOKIE = f"{origin.COOKIE}={'a' * 43}"


def asked(sender, cookie=COOKIE):
    headers = [(b"cookie", cookie.encode()), (b"origin", sender.encode())]
    return Request({"type": "http", "headers": headers})


@pytest.mark.parametrize(
    "url, sender",
    [
        ("https://post.example.org", "https://post.example.org"),
        ("https://Post.Example.org:443", "https://post.example.org"),
        ("https://post.example.org:8443", "https://post.example.org:8443"),
        ("http://127.0.0.1:8025", "http://localhost:8025"),
        ("http://[::1]:8025", "http://127.0.0.1:8025"),
        ("http://[::1]:8025", "http://[::1]:8025"),
    ],
)
def test_a_form_of_ours_is_known_by_its_origin(url, sender):
    assert origin.is_ours(asked(sender), url=url)
    assert not origin.is_ours(asked(sender, cookie="x=y"), url=url)
    assert not origin.is_ours(asked(sender, cookie=f"{origin.COOKIE}=short"), url=url)


@pytest.mark.parametrize(
    "sender",
    ["null", "", "http://post.example.org", "https://post.example.org.evil.example", "https://localhost"],
)
def test_a_form_of_anybody_else_is_not(sender):
    assert not origin.is_ours(asked(sender), url="https://post.example.org")
