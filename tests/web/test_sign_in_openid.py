"""W6: members sign in with OpenID providers: the simulated Entra, and one of our own that also lies."""

import re
import time
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from postroom.flow.access import members
from postroom.model import Role, Secret
from postroom.providers import registry
from postroom.providers.transport import open_client
from postroom.web import app
from providers.consent import consent
from simulator.driver import running
from web.push_server import serve
from web.sign_in_support import build_site

URL = "http://127.0.0.1:9"
KEY, OTHER = (rsa.generate_private_key(65537, 2048) for _ in range(2))


class Provider:
    """A provider that answers the code `good` with `claims`, signed with `key` and `algorithm`."""

    def __init__(self):
        self.url, self.claims, self.key, self.algorithm = "", {}, KEY, "RS256"
        self.nonce, self.asked = "", {}
        self.beside, self.published = [], None
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self.configuration),
                Route("/keys", self.keys),
                Route("/token", self.token, methods=["POST"]),
            ]
        )

    async def configuration(self, _request):
        return JSONResponse(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
            }
        )

    async def keys(self, _request):
        key = jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
        own = key | {"kid": "k1", "use": "sig", "alg": "RS256"}
        return JSONResponse({"keys": [*self.beside, own]} if self.published is None else self.published)

    async def token(self, request):
        self.asked = dict(parse_qs((await request.body()).decode()))
        if self.asked["code"] != ["good"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        reported = {
            "iss": self.url,
            "aud": "us",
            "sub": "s1",
            "iat": now,
            "exp": now + 60,
            "nonce": self.nonce,
        }
        reported |= {"email": "Ann@example.org", "email_verified": True} | self.claims
        key = self.key if self.algorithm == "RS256" else "x" * 32 if self.algorithm == "HS256" else ""
        token = jwt.encode(
            {name: value for name, value in reported.items() if value is not None},
            key,
            self.algorithm,
            {"kid": "k1"},
        )
        return JSONResponse({"access_token": "a", "token_type": "Bearer", "id_token": token})


@pytest.fixture
async def provider():
    made = Provider()
    async with serve(made.app) as made.url:
        yield made


@asynccontextmanager
async def visitor(database, organization, issuer, client_id="us", secret="hush", **options):
    async with open_client() as client:
        identities = registry.build_openid(client, issuer, client_id, Secret(secret), **options)
        site = build_site(database, organization, url=URL, identities=identities)
        transport = httpx2.ASGITransport(app.create(site), raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url=URL) as browser:
            yield browser


@pytest.fixture
async def browser(database, organization, provider):
    async with visitor(database, organization, provider.url) as made:
        yield made


@pytest.fixture
async def ann(database, organization):
    return await members.add(database, organization, "ann@example.org", role=Role.READER)


async def come_back(browser, provider, code="good", state=None, **asked):
    begun = await browser.get("/sign-in/openid", params=asked)
    query = parse_qs(urlsplit(begun.headers["location"]).query)
    provider.nonce = query["nonce"][0]
    answer = {"code": code, "state": query["state"][0] if state is None else state}
    return await browser.get("/sign-in/openid/callback", params=answer)


async def test_member_is_matched_by_verified_address_then_by_account(
    browser, provider, ann, database, organization
):
    done = await come_back(browser, provider, next="/health/parts")
    assert (done.status_code, done.headers["location"]) == (303, "/health/parts")
    assert "code_verifier" in provider.asked
    assert (await browser.get("/health/parts")).status_code == 200
    provider.claims = {"email": "renamed@example.org", "email_verified": False}
    assert (await come_back(browser, provider)).status_code == 303
    assert (await members.find(database, organization, "ann@example.org")).by_openid


@pytest.mark.parametrize(
    "claims", [{"email": "bob@example.org"}, {"email_verified": False}, {"email": None}], ids=str
)
async def test_unknown_account_is_rejected(browser, provider, ann, claims):
    provider.claims = claims
    refused = await come_back(browser, provider)
    assert (refused.status_code, "not a member" in refused.text) == (403, True)


def read_choices(answer):
    """The forms of the page that asks for the organization."""
    [choice, *_] = re.findall(r'name="choice" value="([^"]+)"', answer.text)
    return choice, re.findall(r'name="organization" value="([^"]+)"', answer.text)


async def choose(browser, choice, organization, origin=URL):
    form = {"choice": choice, "organization": str(organization)}
    return await browser.post("/sign-in/openid/callback", data=form, headers={"origin": origin})


@pytest.mark.parametrize("is_member_here", [True, False])
async def test_first_sign_in_asks_for_the_organization(
    browser, provider, database, organization, other_organization, is_member_here
):
    """The other organization's admin may have added the address of a person who does not know it."""
    added = [other_organization, organization] if is_member_here else [other_organization]
    for each in added:
        await members.add(database, each, "ann@example.org", role=Role.READER)
    asked = await come_back(browser, provider, next="/health/parts")
    assert (asked.status_code, "postroom_session" in browser.cookies) == (200, False)
    choice, offered = read_choices(asked)
    assert set(offered) == set(map(str, added))
    assert (await choose(browser, choice, added[-1], origin="https://elsewhere.example")).status_code == 403
    assert (await choose(browser, choice + "x", added[-1])).status_code == 400
    assert (await choose(browser, choice, UUID(int=1))).status_code == 403
    assert not any([(await members.find(database, each, "ann@example.org")).by_openid for each in added])
    done = await choose(browser, choice, added[-1])
    assert (done.status_code, done.headers["location"]) == (303, "/health/parts")
    assert (await members.find(database, added[-1], "ann@example.org")).by_openid
    assert (await come_back(browser, provider)).status_code == 303
    assert (await choose(browser, choice, added[0])).status_code == 403


async def test_second_account_cannot_take_over_a_member(browser, provider, ann):
    await come_back(browser, provider)
    provider.claims = {"sub": "s2"}
    assert (await come_back(browser, provider)).status_code == 403


@pytest.mark.parametrize(
    "lie",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "somebody else"},
        {"iss": "https://elsewhere.example"},
        {"exp": 1},
        {"exp": None},
        {"sub": None},
        {"azp": "somebody else", "aud": ["us", "them"]},
    ],
    ids=str,
)
async def test_token_of_another_sign_in_is_rejected(browser, provider, ann, lie):
    provider.claims = lie
    assert (await come_back(browser, provider)).status_code == 400
    assert (await browser.get("/health/parts")).status_code == 401


@pytest.mark.parametrize("algorithm", ["RS256", "HS256", "none"])
async def test_token_with_a_foreign_signature_is_rejected(browser, provider, ann, algorithm):
    provider.key, provider.algorithm = OTHER, algorithm
    assert (await come_back(browser, provider)).status_code == 400


async def test_unsupported_key_types_are_ignored(browser, provider, ann):
    provider.beside = [
        {"kty": "EC", "crv": "new", "x": "AA", "y": "AA", "kid": "k0"},
        {"kty": "OKP", "crv": "newer", "x": "AA"},
        {"kty": "AKP", "pub": "AA"},
        {"kty": "RSA"},
        {},
        "key",
    ]
    assert (await come_back(browser, provider)).status_code == 303


@pytest.mark.parametrize("published", [{}, [], {"keys": None}, {"keys": [{"kty": "AKP"}]}], ids=str)
async def test_provider_without_a_supported_key_is_reported(browser, provider, ann, published):
    provider.published = published
    answer = await come_back(browser, provider)
    assert (answer.status_code, "must fix" in answer.text) == (503, True)


async def test_wrong_code_state_or_browser_is_rejected(browser, provider, ann):
    assert (await come_back(browser, provider, code="bad")).status_code == 400
    assert (await come_back(browser, provider, state="x")).status_code == 400
    answer = {"code": "good", "state": "x"}
    assert (await browser.get("/sign-in/openid/callback", params=answer)).status_code == 400


async def test_unreachable_or_wrong_provider_is_reported(database, organization, provider):
    for issuer, words in (("http://127.0.0.1:9", "is not responding"), (f"{provider.url}/x", "must fix")):
        async with visitor(database, organization, issuer) as browser:
            answer = await browser.get("/sign-in/openid")
            assert (answer.status_code, words in answer.text) == (503, True)


async def test_member_signs_in_with_simulated_entra(database, organization, ann):
    with running() as sim:
        sim.create("outlook", "ann@example.org", messages=1)
        reported = sim.post("microsoft/tokens", address="ann@example.org")["id_token"]
        tenant = jwt.decode(reported, options={"verify_signature": False})["tid"]
        known = sim.ready["clients"]["outlook"]
        async with visitor(
            database,
            organization,
            f"{sim.http}/{tenant}/v2.0",
            known["client_id"],
            known["client_secret"],
            trust_addresses=True,
        ) as browser:
            begun = await browser.get("/sign-in/openid")
            answer = await consent(begun.headers["location"], "ann@example.org")
            done = await browser.get("/sign-in/openid/callback", params=answer)
            assert done.status_code == 303, done.text
            assert (await browser.get("/health/parts")).status_code == 200
