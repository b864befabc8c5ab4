"""The schema registry: what it answers, what it does not, and what is asked once."""

import base64
import json

import pytest

from flintmq.errors import StoreAccessError, UsageError
from flintmq.lake.bodies.registry import UNKNOWN_MAX, SchemaRegistry
from tests.support.http_answers import answering


@pytest.fixture
def asked():
    return []


@pytest.fixture
def server(asked):
    """A registry on loopback, which answers by the number of the schema."""
    answers = {
        1: (200, json.dumps({"schema": '"long"'})),
        2: (200, json.dumps({"schema": '"long"', "schemaType": "PROTOBUF"})),
        3: (200, json.dumps({"schema": "{}", "references": [{"name": "x"}]})),
        4: (500, "{}"),
        5: (200, "no JSON"),
        6: (200, "{}"),
        7: (401, "{}"),
    }

    def answer(request):
        asked.append((request.path, request.headers.get("Authorization")))
        status, text = answers.get(int(request.path.rpartition("/")[2]), (404, "{}"))
        return status, {}, text.encode()

    with answering(answer) as url:
        yield url.removeprefix("http://")


def test_answers(server, asked):
    registry = SchemaRegistry(f"http://user:p%40ss@{server}/base/")
    assert [registry.text(number) for number in (1, 1, 2, 99, 99)] == ['"long"', '"long"', None, None, None]
    user = "Basic " + base64.b64encode(b"user:p@ss").decode()
    assert asked == [(f"/base/schemas/ids/{number}", user) for number in (1, 2, 99)]


@pytest.mark.parametrize("by_variable", [True, False])
def test_a_password_of_netrc(server, asked, tmp_path, monkeypatch, by_variable):
    file = tmp_path / ("passwords" if by_variable else ".netrc")
    file.write_text("machine 127.0.0.1 login ours password p@ss\nmachine elsewhere login other password no\n")
    file.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(file)) if by_variable else monkeypatch.delenv("NETRC", raising=False)
    port = server.rpartition(":")[2]
    for place in (f"http://{server}", f"http://user:given@{server}", f"http://localhost:{port}"):
        assert SchemaRegistry(place).text(1) == '"long"'
    sent = [base64.b64decode(user.removeprefix("Basic ")) if user else None for _, user in asked]
    assert sent == [b"ours:p@ss", b"user:given", None]


def test_a_netrc_that_cannot_be_read_is_told(server, tmp_path, monkeypatch):
    (tmp_path / "passwords").write_text("machine\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "passwords"))
    with pytest.raises(StoreAccessError, match=r"passwords: .*; it is read for a password of http://127\.0\.0\.1"):
        SchemaRegistry(f"http://{server}").text(1)


@pytest.mark.parametrize(
    "number, message",
    [
        (3, "schema 3 refers to others"),
        (4, "answers 500 for schema 4"),
        (5, "gives no schema for id 5"),
        (6, "gives no schema for id 6"),
        (7, "answers 401 for schema 7"),
    ],
)
def test_a_registry_that_fails_ends_the_export_and_tells_no_password(server, number, message):
    with pytest.raises(StoreAccessError, match=message) as caught:
        SchemaRegistry(f"http://user:secret@{server}").text(number)
    assert "secret" not in str(caught.value) and server in str(caught.value)


def test_nobody_answers():
    with pytest.raises(StoreAccessError, match="does not answer"):
        SchemaRegistry("http://127.0.0.1:9").text(1)


def test_bodies_of_something_else_do_not_ask_for_ever(tmp_path):
    registry = SchemaRegistry(str(tmp_path))
    for number in range(UNKNOWN_MAX):
        assert registry.text(number) is None
    with pytest.raises(StoreAccessError, match=f"none of {UNKNOWN_MAX} schemas"):
        registry.text(UNKNOWN_MAX)


@pytest.mark.parametrize("place", ["ftp://host", "http://", "file:///x"])
def test_places_that_are_none(place):
    with pytest.raises(UsageError, match="give a URL"):
        SchemaRegistry(place)
