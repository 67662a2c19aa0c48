"""A saved simulation continues in another process: the same requests get the same answers."""

import asyncio
import dataclasses
import functools
import gzip
import inspect
import json
import random
import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from example_counts import examples
from mailsim.__main__ import main
from mailsim.app import ROUTES
from mailsim.clock import Clock
from mailsim.gmail.methods import METHODS
from mailsim.graph import api
from mailsim.simulator import Simulator, SimulatorOptions, make_simulator
from mailsim.state.object_graph import SavedClass
from mailsim.state.simulation_state import list_classes, list_parts
from mailsim.state.state_file import write_state
from simulator.driver import Simulation, running
from simulator.graph_push_receiver import GraphPushReceiver, receive_pushes

ANN, BOB = "ann@example.com", "bob@example.com"
OPTIONS = ("--clock", "manual", "--start", "2026-03-02T09:00:00Z")
GMAIL_SCOPES = ["https://mail.google.com/", "https://www.googleapis.com/auth/gmail.settings.basic", "openid"]
GRAPH_SCOPES = ["Mail.ReadWrite", "Mail.Send", "MailboxSettings.ReadWrite", "User.Read", "offline_access"]
TOPIC = "projects/mailsim/topics/gmail"
RAW = b"From: Carl <carl@example.org>\r\nSubject: %d\r\nMessage-ID: <%d@example.org>\r\n\r\nHello\r\n"


class Client:
    """A client of one simulation with tokens and cursors, which another simulation must honour."""

    def __init__(self, sim: Simulation, receiver: GraphPushReceiver) -> None:
        self.receiver = receiver
        sim.post("reset")
        sim.control.patch("microsoft/options", json={"first_timeout": 60, "retry_timeout": 60})
        sim.create("gmail", ANN, 40)
        sim.create("outlook", BOB, 40)
        self.gmail = sim.post("google/tokens", address=ANN, scopes=GMAIL_SCOPES)
        self.graph = sim.post("microsoft/tokens", address=BOB, scopes=GRAPH_SCOPES)
        self.history = self.get_gmail(sim, "profile")["historyId"]
        self.delta = self.follow(sim, "/v1.0/me/mailFolders/inbox/messages/delta?$select=subject,isRead")
        self.device = self.post_form(sim, "/device/code", scope="openid")["device_code"]

    def ask(self, sim: Simulation, method: str, path: str, **more: Any) -> httpx2.Response:
        graph = path.startswith(("/v1.0/", "/oidc/"))
        token = (self.graph if graph else self.gmail)["access_token"]
        headers = {"authorization": f"Bearer {token}", "host": "localhost"}
        with httpx2.Client(base_url=sim.http, trust_env=False, timeout=60) as http:
            return http.request(method, path, headers=headers, **more)

    def get_gmail(self, sim: Simulation, path: str) -> Any:
        return self.ask(sim, "GET", f"/gmail/v1/users/me/{path}").json()

    def post_form(self, sim: Simulation, path: str, **form: str) -> Any:
        known = sim.ready["clients"]["outlook" if "oauth2" in path else "gmail"]
        form |= {"client_id": known["client_id"], "client_secret": known["client_secret"]}
        return self.ask(sim, "POST", path, data=form).json()

    def follow(self, sim: Simulation, link: str) -> str:
        """Read a delta feed to its end and return the path of the new deltaLink."""
        while True:
            page = self.ask(sim, "GET", link).json()
            next_link = page.get("@odata.nextLink") or page["@odata.deltaLink"]
            link = next_link.partition("localhost")[2]
            if "@odata.deltaLink" in page:
                return link

    def probe(self, sim: Simulation) -> list[Any]:
        """Return what a client sees of everything it may have left behind."""
        inbox = "/v1.0/me/mailFolders/inbox/messages"
        refresh = {"grant_type": "refresh_token"}
        listed = self.get_gmail(sim, "messages?maxResults=5")
        paths = [
            f"/gmail/v1/users/me/history?startHistoryId={self.history}", "/gmail/v1/users/me/labels",
            "/gmail/v1/users/me/drafts", "/gmail/v1/users/me/settings/filters", "/gmail/v1/users/me/threads",
            *(f"/gmail/v1/users/me/messages/{one['id']}" for one in listed.get("messages", ())),
            self.delta, inbox, "/v1.0/me/mailFolders", "/v1.0/subscriptions", "/oauth2/v3/certs",
            "/v1.0/me/mailFolders/inbox/messageRules", "/v1.0/me/outlook/masterCategories",
            "/common/discovery/v2.0/keys", "/oauth2/v3/userinfo",
        ]  # fmt: skip
        answers = [self.ask(sim, "GET", path) for path in paths]
        device = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": self.device}
        return [
            *((answer.status_code, answer.text) for answer in answers),
            self.post_form(sim, "/token", refresh_token=self.gmail["refresh_token"], **refresh),
            self.post_form(
                sim, "/common/oauth2/v2.0/token", refresh_token=self.graph["refresh_token"], **refresh
            ),
            self.post_form(sim, "/token", **device),
            *(sim.get(path) for path in ("mailboxes", "faults", "clock", "meters", "device-codes")),
            *(sim.truth(address) for address in (ANN, BOB)),
        ]


def pick(sim: Simulation, address: str, rng: random.Random) -> int:
    return rng.choice(sim.truth(address))["number"]


def subscribe(sim: Simulation, client: Client, rng: random.Random) -> None:
    body = {
        "changeType": "created,updated,deleted", "notificationUrl": client.receiver.url,
        "resource": rng.choice(["me/messages", "me/mailFolders('inbox')/messages?$filter=isRead eq false"]),
        "expirationDateTime": "2026-03-04T09:00:00Z", "clientState": "secret",
    }  # fmt: skip
    assert client.ask(sim, "POST", "/v1.0/subscriptions", json=body).status_code == 201


def watch(sim: Simulation, client: Client, rng: random.Random) -> None:
    sim.post("google/topics", name=TOPIC)
    sim.post("google/subscriptions", name="projects/mailsim/subscriptions/pull", topic=TOPIC)
    client.ask(sim, "POST", "/gmail/v1/users/me/watch", json={"topicName": TOPIC})


def add_filter(sim: Simulation, client: Client, rng: random.Random) -> None:
    body = {"criteria": {"from": "carl@example.org"}, "action": {"addLabelIds": ["STARRED"]}}
    client.ask(sim, "POST", "/gmail/v1/users/me/settings/filters", json=body)


def add_rule(sim: Simulation, client: Client, rng: random.Random) -> None:
    body = {
        "displayName": "Carl",
        "conditions": {"senderContains": ["carl"]},
        "actions": {"markAsRead": True},
    }
    client.ask(sim, "POST", "/v1.0/me/mailFolders/inbox/messageRules", json=body)


def start_upload(sim: Simulation, client: Client, rng: random.Random) -> None:
    path = "/resumable/upload/gmail/v1/users/me/messages?uploadType=resumable"
    assert client.ask(sim, "POST", path, json={}).status_code == 200


def deliver_both(sim: Simulation, client: Client, rng: random.Random) -> None:
    number = rng.randrange(1000)
    for address in (ANN, BOB):
        sim.deliver(address, RAW % (number, number))
        sim.post("settle")  # how many notifications share a push depends on the machine
        sim.deliver(address, kind="plain", seed=number)
        sim.post("settle")


def draft(sim: Simulation, client: Client, rng: random.Random) -> None:
    body = {"subject": "Later", "toRecipients": [{"emailAddress": {"address": ANN}}]}
    made = client.ask(sim, "POST", "/v1.0/me/messages", json=body).json()
    if rng.random() < 0.5:
        client.ask(sim, "POST", f"/v1.0/me/messages/{made['id']}/send")


Step = Callable[[Simulation, Client, random.Random], Any]
STEPS: tuple[Step, ...] = (
    subscribe, watch, add_filter, add_rule, start_upload, deliver_both, draft,
    lambda sim, client, rng: sim.act(BOB, pick(sim, BOB, rng), "move", folder="archive"),
    lambda sim, client, rng: sim.act(ANN, pick(sim, ANN, rng), "trash"),
    lambda sim, client, rng: sim.act(BOB, pick(sim, BOB, rng), "mark", read=True, flag="flagged"),
    lambda sim, client, rng: sim.delete(f"mailboxes/{ANN}/messages/{pick(sim, ANN, rng)}"),
    lambda sim, client, rng: sim.post(f"mailboxes/{ANN}/folders", name=f"Label {rng.random()}"),
    lambda sim, client, rng: sim.fault("push_late", seconds=rng.randrange(1, 200), times=2),
    lambda sim, client, rng: sim.fault("throttle", endpoint="messages.get", probability=0.3),
    lambda sim, client, rng: sim.fault("not_readable", seconds=600, times=1),
    lambda sim, client, rng: sim.move_clock(rng.randrange(1, 900)),
    lambda sim, client, rng: sim.post(f"mailboxes/{BOB}/expire-cursors"),
    lambda sim, client, rng: sim.post(f"mailboxes/{BOB}/revoke", reason="password"),
    lambda sim, client, rng: sim.post("google/service-accounts", name="reader"),
    lambda sim, client, rng: sim.post("microsoft/refusals", code=50173, times=1),
    lambda sim, client, rng: setattr(client, "history", client.get_gmail(sim, "profile")["historyId"]),
    lambda sim, client, rng: client.get_gmail(sim, f"messages/{sim.truth(ANN)[0]['id']}"),
)  # fmt: skip


def save(sim: Simulation) -> bytes:
    answer = sim.control.get("state")
    assert answer.status_code == 200, answer.text
    return answer.content


def load(sim: Simulation, data: bytes) -> httpx2.Response:
    return sim.control.post("state", content=data, headers={"content-type": "application/gzip"})


def comparable(data: bytes) -> Any:
    """Return a saved state without what depends on the machine: durations and ports, and the checksums."""
    state = json.loads(gzip.decompress(data))
    del state["checksums"]
    for one in state["objects"]:
        if one[0] == "HttpExchange":
            one[1]["duration_ms"] = 0
    return state


def assert_same(loaded: bytes, saved: bytes) -> None:
    """Compare object by object: a difference of the whole states would be unreadable."""
    found, expected = comparable(loaded), comparable(saved)
    for one, other in zip(found["objects"], expected["objects"], strict=False):
        assert one == other
    assert found == expected


@pytest.fixture(scope="module")
def pair() -> Generator[tuple[Simulation, Simulation]]:
    with running(*OPTIONS, checked=False) as first, running(*OPTIONS, checked=False) as second:
        yield first, second


@pytest.fixture(scope="module")
def receiver() -> Generator[GraphPushReceiver]:
    with receive_pushes() as receiver:
        yield receiver


@pytest.mark.examples
def test_a_loaded_simulation_answers_like_the_saved_one(
    pair: tuple[Simulation, Simulation], receiver: GraphPushReceiver
):
    first, second = pair
    for seed in range(examples(6)):
        rng = random.Random(seed)
        client = Client(first, receiver)
        for step in rng.choices(STEPS, k=12):
            step(first, client, rng)
            first.post("settle")
        saved = save(first)
        assert load(second, saved).status_code == 204
        assert_same(save(second), saved)
        assert client.probe(second) == client.probe(first), seed
        for sim in pair:
            deliver_both(sim, client, random.Random(seed))
            sim.move_clock(300)
        assert client.probe(second) == client.probe(first), seed
        assert_same(save(second), save(first))


def test_pending_pushes_continue_in_the_loaded_simulation(pair: tuple[Simulation, Simulation]):
    with receive_pushes() as receiver:
        check_pending_pushes(*pair, receiver)


def check_pending_pushes(first: Simulation, second: Simulation, receiver: GraphPushReceiver) -> None:
    client = Client(first, receiver)
    subscribe(first, client, random.Random(0))
    first.fault("push_late", seconds=600, times=1)
    first.deliver(BOB, RAW % (1, 1))
    assert load(second, save(first)).status_code == 204
    first.post("reset")  # only the loaded one may push from now on
    second.move_clock(601)
    [change] = receiver.next().value
    assert change["changeType"] == "created"
    assert client.ask(second, "GET", f"/v1.0/{change['resource']}").status_code == 200
    second.deliver(BOB, RAW % (2, 2))
    assert receiver.next().value[0]["clientState"] == "secret"


def test_the_command_loads_a_file_with_its_seed_and_clock(
    pair: tuple[Simulation, Simulation], receiver: GraphPushReceiver, tmp_path: Path
):
    first, _ = pair
    client = Client(first, receiver)
    first.move_clock(86_400)
    file = tmp_path / "case.mailsim"
    file.write_bytes(save(first))
    with running("--load", str(file)) as loaded:
        assert loaded.get("clock") == first.get("clock")
        assert loaded.ready["clients"] == first.ready["clients"]
        assert loaded.truth(ANN) == first.truth(ANN)
        assert client.post_form(
            loaded, "/token", grant_type="refresh_token", refresh_token=client.gmail["refresh_token"]
        )["access_token"]
        loaded.post("reset")
        assert loaded.get("mailboxes") == []


def change_version(data: bytes) -> bytes:
    state = json.loads(gzip.decompress(data))
    return gzip.compress(json.dumps({**state, "version": 99}).encode())


def edit(*path: str | int) -> Callable[[bytes], bytes]:
    """Return an edit of one value of a file."""

    def change(data: bytes) -> bytes:
        state = json.loads(gzip.decompress(data))
        node = functools.reduce(lambda inner, key: inner[key], path[:-1], state)
        node[path[-1]] = "edited"
        return gzip.compress(json.dumps(state).encode())

    return change


def remove_last_object(data: bytes) -> bytes:
    state = json.loads(gzip.decompress(data))
    state["objects"].pop()
    return gzip.compress(json.dumps(state).encode())


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "incomplete": lambda data: b"",
    "this is not a saved state": lambda data: b"From: me\r\n\r\n",
    "damaged: the file is incomplete": lambda data: data[: len(data) // 2],
    "or it is damaged": lambda data: data[:-8] + bytes(8),
    "not a saved state of mailsim": lambda data: gzip.compress(b'{"format": "other"}'),
    "damaged: it is not JSON": lambda data: gzip.compress(b"[" * 100_000),
    "version 99; this mailsim reads version 2": change_version,
    "damaged: options was edited": edit("options", "quota"),
    "damaged: part registry was edited": edit("parts", "registry", "_draws"),
    "damaged: object 0 (dict) was edited": edit("objects", 0, 1),
    "(missing) was edited after it was saved": remove_last_object,
    "damaged: a section is missing": edit("parts"),
    "a section is missing or has an unknown form": edit("checksums"),
}


@pytest.mark.parametrize("why", DAMAGES)
def test_a_file_that_cannot_be_loaded_is_refused_with_a_reason(
    pair: tuple[Simulation, Simulation],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    why: str,
):
    sim, _ = pair
    before = sim.get("mailboxes")
    data = DAMAGES[why](save(sim))
    if data:
        answer = load(sim, data)
        assert answer.status_code == 400
        assert why in answer.json()["error"]
    assert sim.get("mailboxes") == before
    file = tmp_path / "bad.mailsim"
    file.write_bytes(data)
    with pytest.raises(SystemExit) as ended:
        main(["--load", str(file)])
    said = capsys.readouterr().err
    assert (ended.value.code, said.count("\n"), why in said) == (2, 1, True), said


def test_load_names_a_missing_file_and_options_that_the_file_decides(capsys: pytest.CaptureFixture[str]):
    for options, why in (
        (["--load", "/nonexistent"], "cannot read /nonexistent: no such file"),
        (["--load", "x", "--seed", "7"], "takes --seed from the file"),
    ):
        with pytest.raises(SystemExit):
            main(options)
        assert why in capsys.readouterr().err


@pytest.mark.examples
def test_a_forged_state_gets_a_refusal_and_never_a_server_error(
    pair: tuple[Simulation, Simulation], receiver: GraphPushReceiver
):
    """A file of a stranger: values replaced at random, among them references, class names and types.

    Edited, it is refused with the place. With new checksums it may load; then no route fails.
    """
    first, second = pair
    client = Client(first, receiver)
    subscribe(first, client, random.Random(0))
    watch(first, client, random.Random(0))
    original = gzip.decompress(save(first))
    for seed in range(examples(30)):
        rng, state = random.Random(seed), json.loads(original)
        for _ in range(rng.randrange(1, 4)):
            forge(rng.choice([state["objects"], *state["parts"].values()]), rng)
        answer = load(second, gzip.compress(json.dumps(state).encode(), 1))
        assert answer.status_code == (204 if state == json.loads(original) else 400), (seed, answer.text)
        assert answer.status_code == 204 or "was edited after it was saved" in answer.json()["error"]
        content = {name: state[name] for name in ("options", "clock", "parts", "objects")}
        answer = load(second, write_state(content))
        assert answer.status_code in {204, 400}, (seed, answer.text)
        if answer.status_code == 204 or seed == 0:
            knock_everywhere(second, client)
    assert load(second, gzip.compress(original)).status_code == 204


def knock_everywhere(sim: Simulation, client: Client) -> None:
    """Read every route of Gmail, Graph and the control API; none may fail with a server error."""
    graph = [f"/v1.0/{'/'.join(route.pattern)}" for route in api.ROUTES.routes if route.method == "GET"]
    gmail = [f"/gmail/v1/users/me/{'/'.join(method.path)}" for method in METHODS if method.http == "GET"]
    document = sim.control.get("openapi.json").json()["paths"]
    control = [path for path, methods in document.items() if "get" in methods]
    assert min(len(graph), len(gmail) + len(control)) > 40
    for path in (*graph, *gmail, *control):
        known = path.replace("users/*", "me").replace("{address}", ANN)
        for name in ("inbox", "0"):
            answer = client.ask(sim, "GET", re.sub(r"\{[^}]*\}|\*", name, known))
            assert answer.status_code not in {500, 502, 503}, (path, answer.text)


FORGERIES: tuple[Any, ...] = (
    None, -1, 10**30, "x", True, [], {}, 1.5, ["object", 0], ["object", 10**9], ["bytes", "!"], ["tuple"],
    ["os.system", {}], ["Mailbox", {}],
)  # fmt: skip


def forge(node: Any, rng: random.Random) -> None:
    """Replace one value below a node of the file."""
    key: Any = rng.choice(list(cast("dict[str, Any]", node)) if isinstance(node, dict) else range(len(node)))
    inner: Any = cast("Any", node)[key]
    if isinstance(inner, list | dict) and inner and rng.random() < 0.8:
        forge(inner, rng)
    else:
        node[key] = rng.choice(FORGERIES)


def test_every_attribute_of_the_simulator_is_saved_or_rebuilt():
    """A new attribute must be added to the saved state, or be listed as rebuilt."""
    sim = asyncio.run(make_unused_simulator())
    for name, part in list_parts(sim).items():
        assert set(part.saved) | set(part.rebuilt) == list_attributes(part.owner), name
    for saved in list_classes(sim):
        check_class(saved)


async def make_unused_simulator() -> Simulator:
    async def nothing(*_: object) -> None:
        pass

    sim = make_simulator(SimulatorOptions(), Clock(manual=True), nothing, nothing)
    for build_routes in ROUTES.values():
        build_routes(sim)
    return sim


def list_attributes(owner: object) -> set[str]:
    if dataclasses.is_dataclass(owner):
        return {field.name for field in dataclasses.fields(owner)} | cached_properties(owner)
    return set(vars(owner))


def cached_properties(owner: object) -> set[str]:
    return {name for name, value in vars(type(owner)).items() if isinstance(value, functools.cached_property)}


def check_class(saved: SavedClass) -> None:
    """Compare the fields of classes that are listed by hand with what their methods set."""
    derived = {
        "Mailbox": {"provider", "address", "listeners", "sort_arrival", "_clock", "_cache", "_first"},
        "GraphIds": {
            "_mutable", "_immutable", "_folder_head", "_conversation_head", "_mutable_text",
            "_immutable_text", "_keys", "_folders", "_hashes",
        },
    }.get(saved.type.__name__, set[str]())  # fmt: skip
    if not dataclasses.is_dataclass(saved.type) and inspect.isfunction(saved.type.__init__):
        text = inspect.getsource(saved.type.__init__)
        assert set(re.findall(r"self\.(\w+)(?::[^=]+)? =", text)) == set(saved.names) | derived
