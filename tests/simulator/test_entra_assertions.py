"""Client authentication with a signed assertion instead of a secret."""

import base64
import time

import httpx2
import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from simulator.certificates import make_certificate

TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@pytest.fixture(scope="module")
def pair():
    return make_certificate()


@pytest.fixture
def ask(sim, pair):
    """Return a function that sends an assertion and returns status and AADSTS code (0 for success)."""
    private, certificate = pair
    application = sim.post("applications", provider="outlook", certificate=certificate)
    url = f"{sim.http}/{application['tenant']}/oauth2/v2.0/token"
    loaded = x509.load_pem_x509_certificate(certificate.encode())
    prints = {"x5t": hashes.SHA1(), "x5t#S256": hashes.SHA256()}

    def send(*, key=private, algorithm="RS256", header="x5t", spoil=False, **changes):
        claims = {
            "aud": url,
            "iss": application["client_id"],
            "sub": application["client_id"],
            "nbf": time.time() - 5,
            "exp": time.time() + 300,
            **changes,
        }
        shown = base64.urlsafe_b64encode(loaded.fingerprint(prints[header])).decode().rstrip("=")
        assertion = jwt.encode(claims, key, algorithm, headers={header: shown})
        form = {
            "client_id": application["client_id"],
            "grant_type": "client_credentials",
            "scope": "https://graph.microsoft.com/.default",
            "client_assertion_type": TYPE,
            "client_assertion": assertion[:-4] + "AAAA" if spoil else assertion,
        }
        with httpx2.Client(trust_env=False) as http:
            answer = http.post(url, data=form)
        return answer.status_code, answer.json().get("error_codes", [0])[0]

    return send


@pytest.mark.parametrize("algorithm", ["RS256", "PS256"])
@pytest.mark.parametrize("header", ["x5t", "x5t#S256"])
def test_both_algorithms_and_both_thumbprints_are_accepted(ask, algorithm, header):
    assert ask(algorithm=algorithm, header=header) == (200, 0)


def test_a_signature_by_another_key_is_refused(ask):
    assert ask(key=make_certificate()[0]) == (401, 700027)


def test_a_corrupted_signature_is_refused(ask):
    assert ask(spoil=True) == (401, 700027)


def test_a_symmetric_algorithm_is_refused(ask):
    assert ask(key="a shared secret that is long enough", algorithm="HS256") == (401, 700027)


def test_an_assertion_for_another_application_or_audience_is_refused(ask):
    assert ask(aud="https://login.example.com/token") == (401, 700023)
    assert ask(iss="00000000-0000-4000-8000-000000000000") == (401, 700027)


def test_an_assertion_outside_its_validity_is_refused(ask):
    assert ask(exp=time.time() - 3600, nbf=time.time() - 7200) == (401, 700024)
    assert ask(nbf=time.time() + 3600, exp=time.time() + 7200) == (401, 700024)


def test_moving_the_clock_does_not_expire_assertions(sim, ask):
    sim.move_clock(30 * 86400)
    assert ask() == (200, 0)
