"""What a token endpoint answers, when it is not what was asked for."""

import pytest

from postroom.errors import TransientError
from postroom.providers import oauth
from postroom.providers.transport import Answer


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
def test_an_answer_without_tokens_may_be_right_the_next_time(body):
    with pytest.raises(TransientError):
        oauth.token_answer(Answer(200, {}, body))
