"""Unexpected responses of token endpoints."""

from typing import Any

import pytest

from postroom.errors import ApplicationRejected, LoginRejected, ProviderServerError, TransientError
from postroom.providers import oauth
from postroom.providers.gmail import wire as gmail
from postroom.providers.graph import wire as graph
from postroom.providers.transport import HttpResponse


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{}",
        b"[]",
        b"null",
        b'{"access_token": 7}',
        b'{"access_token": "a", "expires_in": "x"}',
    ],
)
def test_a_response_without_tokens_is_a_transient_error(body: bytes):
    with pytest.raises(TransientError):
        oauth.read_tokens(HttpResponse(200, {}, body))


@pytest.mark.parametrize("provider", [gmail, graph])
@pytest.mark.parametrize("status", [400, 403, 404, 407])
@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"error": null}', b'{"error": {"code": 403}}']
)
def test_an_error_that_is_not_from_oauth_is_a_transient_error(provider: Any, status: int, body: bytes):
    assert type(provider.to_token_error(HttpResponse(status, {}, body))) is ProviderServerError
    assert (
        type(provider.to_token_error(HttpResponse(status, {}, b'{"error": "invalid_request"}')))
        is LoginRejected
    )


def test_a_rejected_certificate_is_not_called_a_secret():
    body = b'{"error": "invalid_client", "error_codes": [700027]}'
    error = graph.to_token_error(HttpResponse(401, {}, body))
    assert isinstance(error, ApplicationRejected)
    assert "(AADSTS700027): its secret or certificate is wrong" in str(error)
