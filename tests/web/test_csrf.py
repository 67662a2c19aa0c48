import pytest
from starlette.requests import Request
from starlette.responses import Response

from postroom.web import csrf


def build_request(sender, **more):
    headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in more.items()]
    headers += [(b"origin", sender.encode())] if sender is not None else []
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
def test_our_own_origin_is_accepted(url, sender):
    assert csrf.is_same_origin(build_request(sender), url=url)


@pytest.mark.parametrize(
    "sender",
    ["null", "", "http://post.example.org", "https://post.example.org.evil.example", "https://localhost"],
)
def test_foreign_origin_is_rejected(sender):
    assert not csrf.is_same_origin(build_request(sender), url="https://post.example.org")
    assert not csrf.is_same_origin(
        build_request(sender, sec_fetch_site="same-origin"), url="https://post.example.org"
    )


@pytest.mark.parametrize("site, ours", [("same-origin", True), ("same-site", False), ("none", False)])
def test_sec_fetch_site_counts_without_an_origin(site, ours):
    assert (
        csrf.is_same_origin(build_request(None, sec_fetch_site=site), url="https://post.example.org") is ours
    )
    assert not csrf.is_same_origin(build_request(None), url="https://post.example.org")


@pytest.mark.parametrize("value, known", [("a" * 43, True), ("short", False), ("", False)])
def test_browser_cookie_must_have_the_right_format(value, known):
    request = build_request(None, cookie=f"{csrf.COOKIE}={value}")
    assert (csrf.get_browser_secret(request, url="http://post.example") is not None) is known


def test_cookie_of_another_host_of_the_domain_is_ignored_over_https():
    secret = csrf.new_browser_secret()
    planted = build_request(None, cookie=f"{csrf.COOKIE}={secret.reveal()}")
    assert csrf.get_browser_secret(planted, url="https://post.example.org") is None
    response = Response()
    csrf.set_browser_cookie(response, secret, url="https://post.example.org")
    name, _, attributes = response.headers["set-cookie"].partition("=")
    assert name == "__Host-postroom_browser"
    assert "; Path=/; SameSite=lax; Secure" in attributes
    own = build_request(None, cookie=f"{name}={secret.reveal()}")
    assert csrf.get_browser_secret(own, url="https://post.example.org") == secret
