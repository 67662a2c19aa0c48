"""D8: records are corrected on the page of their document, through the API and with its client."""

import asyncio
import re

import pytest

from postroom.client import ApiError, NewOrder, Postroom
from web.api_client import create_key_header
from web.push_server import serve
from web.test_review_checks import api, ask
from web.test_table_fields import form_of

__all__ = ["api", "ask"]


@pytest.fixture
def confirm(api, ask):
    """A confirmed invoice with these values: its record and the id of its document."""

    async def confirm(**read):
        review, document = await ask(**read)
        made = await api.post(f"/reviews/{review}/confirm", json={})
        assert made.status_code == 200, made.text
        return made.json(), document

    return confirm


def get_version(page):
    return re.search(r'name="version" value="(\d+)"', page)[1]


async def test_page_corrects_reopens_and_voids_a_record(visitor, api, confirm):
    record, document = await confirm()
    path = f"/documents/{document}"
    page = (await visitor.get(path)).text
    assert "Correct fields" in page
    form = form_of((await visitor.get(f"{path}?correct")).text)
    assert form["field-gross"] == "119.00"
    wrong = {**form, "field-gross": "991.00", "reason": "misread"}
    refused = await visitor.post(f"{path}/record/correct", data=wrong)
    assert refused.status_code == 409
    assert "tick the box under “Failed checks”" in refused.text
    assert "net + VAT = 119.00, gross is 991.00" in refused.text
    assert 'value="991.00"' in refused.text
    done = await visitor.post(f"{path}/record/correct", data={**wrong, "override": "net + vat = gross"})
    assert (done.status_code, done.headers["location"]) == (303, path)
    assert (await api.get(f"/records/{record['id']}")).json()["fields"]["gross"] == "991.00"
    # The other person saw an earlier version.
    stale = await visitor.post(f"{path}/record/void", data={"reason": "gone", "version": "1"})
    assert stale.status_code == 409
    assert "has changed" in stale.text
    page = (await visitor.get(path)).text
    assert "Corrected by" in page
    data = {"reason": "wrong date", "version": get_version(page)}
    assert (await visitor.post(f"{path}/record/reopen", data=data)).status_code == 303
    page = (await visitor.get(path)).text
    assert "reopened: wrong date" in page
    # The review starts from the values of the record, not from those that were read.
    form = form_of(page)
    assert form["field-gross"] == "991.00"
    again = await visitor.post(f"{path}/confirm", data={**form, "field-gross": "119.00"})
    assert again.status_code == 303
    assert (await api.get(f"/records/{record['id']}")).json()["fields"]["gross"] == "119.00"
    page = (await visitor.get(path)).text
    data = {"reason": "not ours", "version": get_version(page)}
    assert (await visitor.post(f"{path}/record/void", data=data)).status_code == 303
    voided = (await api.get(f"/records/{record['id']}")).json()
    assert (voided["state"], voided["version"]) == ("voided", 5)
    page = (await visitor.get(path)).text
    assert "record voided: not ours" in page
    assert ">Reopen<" in page


async def test_page_merges_records_and_undoes_it(visitor, api, confirm):
    one, document = await confirm()
    other, second = await confirm(number="R-2")
    page = (await visitor.get(f"/documents/{second}")).text
    data = {"reason": "one invoice", "version": get_version(page), "into": "unknown"}
    refused = await visitor.post(f"/documents/{second}/record/merge", data=data)
    assert "No record has the key or ID “unknown”" in refused.text
    done = await visitor.post(f"/documents/{second}/record/merge", data={**data, "into": one["key"]})
    assert done.status_code == 303
    merged = (await api.get(f"/records/{other['id']}")).json()
    assert (merged["state"], merged["merged_into"]) == ("merged", one["id"])
    left = (await api.get(f"/records/{one['id']}")).json()
    assert left["document_ids"] == [str(document), str(second)]
    assert f'href="/records/{one["id"]}"' in (await visitor.get(f"/records/{other['id']}")).text
    page = (await visitor.get(f"/documents/{document}")).text
    assert "Undo merge of" in page
    undo = {"reason": "two after all", "merged": other["id"]}
    assert (await visitor.post(f"/documents/{document}/record/split", data=undo)).status_code == 303
    assert (await api.get(f"/records/{other['id']}")).json()["state"] == "confirmed"


async def test_page_offers_the_orders_that_fit(visitor, api, ask):
    fields = {"supplier": "Acme", "gross": "119.00"}
    placed = [{"reference": reference, "fields": fields} for reference in ("O-1", "O-2")]
    await api.post("/orders", json={"kind": "invoice", "orders": placed})
    _, document = await ask()
    page = (await visitor.get(f"/documents/{document}")).text
    assert re.findall(r'<option value="(order:[^"]*)"', page) == ["order:O-1", "order:O-2"]
    done = await visitor.post(f"/documents/{document}/confirm", data={**form_of(page), "order": "order:O-2"})
    assert done.status_code == 303
    [order] = (await api.get("/orders", params={"state": "matched"})).json()["data"]
    [record] = (await api.get("/records")).json()["data"]
    assert (order["reference"], order["record_id"]) == ("O-2", record["id"])
    assert (record["order_id"], record["order_reference"]) == (order["id"], "O-2")
    assert "O-2" in (await visitor.get(f"/documents/{document}")).text


async def test_outdated_change_through_the_api_is_a_conflict(api, confirm):
    record, _ = await confirm()
    path = f"/records/{record['id']}"
    etag = (await api.get(path)).headers["etag"]
    change = {"corrections": {"number": "R-7"}, "reason": "misread"}
    assert (await api.post(f"{path}/correct", json=change, headers={"if-match": etag})).status_code == 200
    late = await api.post(f"{path}/void", json={"reason": "gone"}, headers={"if-match": etag})
    assert (late.status_code, late.json()["type"]) == (412, "urn:postroom:problem:precondition-failed")
    assert (await api.post(f"{path}/void", json={})).status_code == 400
    assert (await api.post(f"{path}/void", json={"reason": "gone"})).json()["state"] == "voided"
    again = await api.post(f"{path}/void", json={"reason": "gone"})
    assert (again.status_code, "is voided" in again.json()["detail"]) == (409, True)
    assert (await api.get("/records")).json()["data"] == []
    [voided] = (await api.get("/records", params={"state": "voided"})).json()["data"]
    assert voided["id"] == record["id"]


async def test_client_puts_records_right(site, database, organization, confirm):
    one, _ = await confirm()
    other, document = await confirm(number="R-2")
    key = (await create_key_header(database, organization))["authorization"].removeprefix("Bearer ")
    async with serve(site) as url:

        def use():
            postroom = Postroom(url, key)
            postroom.import_orders("invoice", [NewOrder("O-1", None, {"supplier": "Acme", "number": "R-1"})])
            linked = postroom.record(one["id"])
            assert linked.order_reference == "O-1"
            assert postroom.order(linked.order_id).record_id == linked.id
            corrected = postroom.correct_record(
                other["id"], {"due_on": "2026-03-01"}, reason="late", order=""
            )
            assert corrected.fields["due_on"] == "2026-03-01"
            left = postroom.merge_record(other["id"], one["id"], reason="one invoice")
            assert document in left.document_ids
            assert postroom.split_record(other["id"], reason="two").state == "confirmed"
            assert postroom.reopen_record(other["id"], "look again").state == "reopened"
            assert postroom.void_record(other["id"], "gone").state == "voided"
            changes = [version.change for version in postroom.record_versions(other["id"])]
            assert changes == ["confirmed", "corrected", "merged", "split", "reopened", "voided"]
            assert [record.id for record in postroom.records()] == [linked.id]
            assert len([*postroom.records(state="all")]) == 2
            with pytest.raises(ApiError, match=r"refused: Record .* is voided"):
                postroom.correct_record(other["id"], {"number": "R-3"}, reason="late")

        await asyncio.to_thread(use)
