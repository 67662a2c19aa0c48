"""Mutable and immutable ids: when they change, which are accepted, how they are translated."""

import pytest

from simulator.microsoft_user import IMMUTABLE


@pytest.fixture
def user(sim, microsoft, address):
    return microsoft.connect(sim, address, "Mail.ReadWrite", messages=4, spread=False)


def ids(user, headers=None):
    return [one["id"] for one in user.get("messages", headers)["value"]]


def test_the_prefer_header_selects_the_id_type_and_both_are_accepted(user):
    mutable, immutable = ids(user), ids(user, IMMUTABLE)
    assert not set(mutable) & set(immutable)
    for one, other in zip(mutable, immutable, strict=True):
        assert user.get(f"messages/{one}", IMMUTABLE)["id"] == other
        assert user.get(f"messages/{other}")["id"] == one


def test_a_move_changes_the_mutable_id_only(user):
    mutable, immutable = ids(user)[0], ids(user, IMMUTABLE)[0]
    moved = user.post(f"messages/{mutable}/move", {"destinationId": "deleteditems"})
    assert moved["id"] != mutable
    assert user.expect_error(404, f"messages/{mutable}")["code"] == "ErrorItemNotFound"
    assert user.get(f"messages/{immutable}", IMMUTABLE)["id"] == immutable
    back = user.post(f"messages/{immutable}/move", {"destinationId": "inbox"}, headers=IMMUTABLE)
    assert back["id"] == immutable
    assert user.get(f"messages/{immutable}")["id"] not in {mutable, moved["id"]}


def test_ids_are_case_sensitive(user):
    for one in (ids(user)[0], ids(user, IMMUTABLE)[0]):
        place = next(i for i in range(len(one) - 5, 0, -1) if one[i].isalpha())
        other = one[:place] + one[place].swapcase() + one[place + 1 :]
        assert user.request("GET", f"messages/{other}").status_code in {400, 404}


def test_an_encoded_id_is_the_same_id(user):
    one = ids(user)[0]
    assert one.endswith("=")
    assert user.get(f"messages/{one.replace('=', '%3D')}")["id"] == one


def test_an_id_of_another_mailbox_is_malformed(sim, microsoft, user):
    other = microsoft.connect(sim, f"other-{user.address}", messages=1)
    assert user.expect_error(400, f"messages/{ids(other)[0]}")["code"] == "ErrorInvalidIdMalformed"


def test_ids_translate_between_all_formats(user):
    mutable, immutable = ids(user), ids(user, IMMUTABLE)

    def translated(given, source, target):
        wanted = {"inputIds": given, "sourceIdType": source, "targetIdType": target}
        answer = user.post("translateExchangeIds", wanted, status=200)
        assert [one["sourceId"] for one in answer["value"]] == given
        return [one["targetId"] for one in answer["value"]]

    assert translated(mutable, "restId", "restImmutableEntryId") == immutable
    assert translated(immutable, "restImmutableEntryId", "restId") == mutable
    for form in ("ewsId", "entryId", "immutableEntryId"):
        there = translated(mutable, "restId", form)
        assert translated(there, form, "restId") == mutable
    assert translated(["nonsense"], "restId", "ewsId") == [None]


@pytest.mark.parametrize(
    "body",
    [
        {}, {"inputIds": "x", "sourceIdType": "restId", "targetIdType": "ewsId"},
        {"inputIds": [], "sourceIdType": "restId", "targetIdType": "ewsId"},
        {"inputIds": ["x"] * 1001, "sourceIdType": "restId", "targetIdType": "ewsId"},
        {"inputIds": ["x"], "sourceIdType": "restId", "targetIdType": "other"},
    ],
)  # fmt: skip
def test_an_invalid_translation_request_is_a_bad_request(user, body):
    user.expect_error(400, "translateExchangeIds", "POST", json=body)
