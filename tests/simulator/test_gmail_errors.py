"""Gmail's errors: format, tokens, unknown paths, parameters, quotas, faults."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import httpx2
import pytest

from simulator.google_user import FULL, make_message

LONG = "Expected OAuth 2 access token, login cookie or other valid authentication credential."


@pytest.fixture
def user(sim, google, address):
    return google.connect(sim, address, messages=10, spread=False)


def test_missing_and_invalid_tokens_give_different_errors(user):
    bare = httpx2.get(f"{user.simulation.http}/gmail/v1/users/me/profile", trust_env=False)
    assert bare.status_code == 401
    assert bare.headers["content-type"] == "application/json; charset=UTF-8"
    assert bare.json()["error"]["errors"][0]["message"] == "Login Required."
    for value in ("Bearer ya29.nothing", "Basic eDp5", "Bearer"):
        error = user.expect_error(401, "profile", headers={"authorization": value})
        assert error["status"] == "UNAUTHENTICATED"
        assert LONG in error["message"]
    error = user.expect_error(401, "profile", headers={"authorization": "Bearer ya29.nothing"})
    assert error["errors"] == [
        {
            "message": "Invalid Credentials",
            "domain": "global",
            "reason": "authError",
            "location": "Authorization",
            "locationType": "header",
        }
    ]


def test_a_token_in_the_query_works(user):
    answer = httpx2.get(
        f"{user.simulation.http}/gmail/v1/users/me/profile",
        params={"access_token": user.tokens["access_token"]},
        trust_env=False,
    )
    assert answer.json()["emailAddress"] == user.address


def test_access_tokens_expire_after_an_hour(sim, user):
    sim.move_clock(3598)
    user.get("profile")
    sim.move_clock(2)
    user.expect_error(401, "profile")


def test_another_users_mailbox_is_forbidden(sim, google, user, address):
    google.connect(sim, f"other.{address}")
    error = user.expect_error(403, "profile", user=f"/gmail/v1/users/other.{address}/")
    assert error["message"] == f"Delegation denied for {address}"
    assert user.request("GET", "profile", user=f"/gmail/v1/users/{address.upper()}/").status_code == 200
    user.expect_error(400, "profile", user="/gmail/v1/users/someone/")


def test_responses_are_pretty_printed_by_default(user):
    assert user.request("GET", "profile").text.startswith('{\n  "emailAddress"')
    assert user.request("GET", "profile", params={"prettyPrint": "false"}).text.startswith('{"emailAddress"')


def test_the_error_format_can_be_chosen(user):
    assert "errors" in user.expect_error(404, "labels/none", params={"$.xgafv": "1"})
    assert "errors" not in user.expect_error(404, "labels/none", params={"$.xgafv": "2"})
    user.expect_error(400, "profile", params={"$.xgafv": "3"})


@pytest.mark.parametrize(
    "path, field",
    [
        ("messages?maxResults=abc", "max_results"),
        ("messages?maxResults=-1", "max_results"),
        ("messages?maxResults=4294967296", "max_results"),
        ("messages?includeSpamTrash=maybe", "include_spam_trash"),
        ("messages/1?format=everything", "format"),
        ("history?startHistoryId=1&historyTypes=messagesAdded", "history_types"),
    ],
)
def test_parameters_of_the_wrong_type_are_named_in_the_error(user, path, field):
    error = user.expect_error(400, path)
    assert error["message"].startswith(f"Invalid value at '{field}'")
    assert error["details"][0]["fieldViolations"][0]["field"] == field


def test_unknown_parameters_and_properties_are_rejected(user, sim, google):
    assert 'Unknown name "page"' in user.expect_error(400, "messages?page=2")["message"]
    owner = google.sign_in(sim, user.address, FULL)
    error = owner.expect_error(400, "labels", "POST", json={"name": "x", "colour": "red"})
    assert error["message"] == 'Invalid JSON payload received. Unknown name "colour": Cannot find field.'
    owner.expect_error(400, "labels", "POST", content=b"{")
    owner.expect_error(400, "labels", "POST", content=b"[1]")
    owner.expect_error(400, "labels", "POST", json={"name": 5})


def test_unknown_paths_return_an_html_page(user):
    for method, path in (
        ("GET", "nothing"),
        ("PUT", "profile"),
        ("GET", "messages/1/2/3"),
        ("GET", "messages/"),
    ):
        answer = user.request(method, path)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "text/html; charset=UTF-8"


def test_alt_must_be_known(user):
    user.expect_error(400, "profile?alt=zzz")
    user.expect_error(400, "profile?alt=media")
    user.get("profile?alt=json")


def test_client_and_account_problems_have_their_own_errors(sim, user):
    client = sim.ready["clients"]["gmail"]["client_id"]
    sim.post(f"google/clients/{client}", trouble="api_disabled")
    error = user.expect_error(403, "profile")
    assert error["errors"][0]["reason"] == "accessNotConfigured"
    sim.post(f"google/clients/{client}", trouble="daily_limit")
    assert user.expect_error(403, "profile")["errors"][0]["reason"] == "dailyLimitExceeded"
    sim.post(f"google/clients/{client}", trouble="")
    sim.post(f"google/accounts/{user.address}", trouble="domain_policy")
    assert user.expect_error(403, "profile")["errors"][0]["reason"] == "domainPolicy"
    sim.post(f"google/accounts/{user.address}", trouble="mail_disabled")
    assert user.expect_error(400, "profile")["status"] == "FAILED_PRECONDITION"
    sim.post(f"google/accounts/{user.address}", trouble="")
    user.get("profile")


SHAPES = {
    "403": (
        403,
        "rateLimitExceeded",
        "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute per user'",
    ),
    "403-short": (403, "userRateLimitExceeded", "User Rate Limit Exceeded"),
    "429": (429, "rateLimitExceeded", "Quota exceeded for quota metric"),
    "429-retry-after": (429, "userRateLimitExceeded", "User-rate limit exceeded.  Retry after 2026-"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_an_exhausted_quota_is_reported_in_each_shape(sim, google, address, shape):
    user = google.connect(sim, address, messages=3, spread=False)
    sim.control.patch("google/options", json={"quota_shape": shape, "user_units": 50})
    newest = user.get("messages")["messages"][0]["id"]
    user.get(f"messages/{newest}")
    user.get(f"messages/{newest}")
    status, reason, text = SHAPES[shape]
    error = user.expect_error(status, f"messages/{newest}")
    assert error["errors"][0]["reason"] == reason
    assert error["errors"][0]["domain"] == "usageLimits"
    assert error["message"].startswith(text)
    user.get("profile")  # what still fits is served
    assert sim.meter(address)["units"] == 5 + 20 + 20 + 1
    assert sim.meter(address)["rejections"] == 1
    sim.control.patch("google/options", json={"quota_shape": "mixed", "user_units": None})


def test_the_quota_window_slides_and_the_retry_time_is_correct(sim, google, address):
    user = google.connect(sim, address, messages=3, spread=False)
    sim.control.patch("google/options", json={"quota_shape": "429-retry-after", "user_units": 40})
    newest = user.get("messages")["messages"][0]["id"]
    sim.move_clock(10)
    user.get(f"messages/{newest}")
    message = user.expect_error(429, f"messages/{newest}")["message"]
    moment = re.search(r"Retry after (\S+)", message)
    now = sim.get("clock")["milliseconds"]
    wait = datetime.fromisoformat(moment[1]).timestamp() - now / 1000
    assert 49 < wait <= 50.2
    sim.move_clock(wait)
    user.get(f"messages/{newest}")
    sim.control.patch("google/options", json={"quota_shape": "mixed", "user_units": None})


def test_a_project_has_its_own_limit(sim, google, address):
    sim.move_clock(61)
    user = google.connect(sim, address)
    sim.control.patch("google/options", json={"project_units": 6})
    user.get("messages")
    user.get("profile")
    error = user.expect_error(403, "profile")
    assert "limit 'Queries per minute' of service" in error["message"]
    sim.control.patch("google/options", json={"project_units": 1_200_000})


@pytest.mark.parametrize("table, units", [("new", 20), ("old", 5), ("off", 20)])
def test_the_quota_table_determines_the_cost_of_a_message(sim, start, google, address, table, units):
    running = sim if table == "new" else start("--quota", table)
    user = google.connect(running, address, messages=1, spread=False)
    newest = user.get("messages", includeSpamTrash="true")["messages"][0]["id"]
    for _ in range(3):
        user.get(f"messages/{newest}")
    assert running.meter(user.address)["units"] == 5 + 3 * units


def test_too_many_concurrent_calls_are_rejected(start, google):
    sim = start("--latency-ms", "400", "--clock", "manual")
    sim.control.patch("google/options", json={"concurrent_calls": 4})
    user = google.connect(sim, "busy@example.com")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: user.request("GET", "profile"), range(8)))
    refused = [answer.json()["error"] for answer in answers if answer.status_code == 429]
    assert len(refused) == 4
    assert {error["message"] for error in refused} == {"Too many concurrent requests for user"}
    assert sim.meter(user.address)["peak"] == 8


def test_faults_use_googles_error_format(sim, user):
    sim.fault("throttle", mailbox=user.address, endpoint="getProfile", retry_after=30, times=1)
    assert "Retry after 2026-" in user.expect_error(429, "profile")["message"]
    sim.fault("throttle", mailbox=user.address, retry_after=0, times=1)
    assert user.expect_error(429, "profile")["errors"][0]["reason"] == "rateLimitExceeded"
    sim.fault("error", mailbox=user.address, status=500, times=1)
    assert user.expect_error(500, "profile")["errors"][0]["reason"] == "backendError"
    sim.fault("html", mailbox=user.address, times=1)
    page = user.request("GET", "profile")
    assert (page.status_code, page.headers["content-type"]) == (502, "text/html; charset=UTF-8")
    assert user.get("profile")


def test_new_mail_can_be_unreadable_for_a_while(sim, user):
    sim.fault("not_readable", mailbox=user.address, seconds=3, times=1)
    start = user.history_id()
    message_id = sim.deliver(user.address, make_message())["id"]
    assert user.get("history", startHistoryId=start)["history"][0]["messages"][0]["id"] == message_id
    user.expect_error(404, f"messages/{message_id}")
    assert sim.truth(user.address)[-1]["id"] == message_id
    sim.act(user.address, message_id, "mark", read=True)
    sim.move_clock(4)
    assert user.get(f"messages/{message_id}")["id"] == message_id
