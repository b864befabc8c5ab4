"""Who asks, what is asked for, and what stores hold: nothing of it runs, reads other files, or writes."""

import base64
import html
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.ui.conftest import Asker, digests, hostile_texts

WORDS = {
    "a", "article", "b", "body", "br", "button", "caption", "code", "datalist", "dd", "details", "div", "dl", "dt",
    "em", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "head", "header", "html", "input", "label", "li",
    "line", "link", "main", "meta", "meter", "nav", "ol", "option", "p", "path", "pre", "progress", "rect", "script",
    "section", "select", "small", "span", "summary", "svg", "table", "tbody",
    "td", "th", "thead", "time", "title", "tr", "ul",
}  # fmt: skip
"""Elements that our pages are made of."""


class Marks(HTMLParser):
    """Collects the elements and attributes of a page that none of our templates writes."""

    def __init__(self) -> None:
        super().__init__()
        self.odd: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in WORDS or (tag == "script" and given.get("src") != "/static/ui.js"):
            self.odd.append(tag)
        if tag == "meta" and given.get("http-equiv", "refresh") != "refresh":
            self.odd.append(str(given))
        self.odd += [name for name in given if name.startswith("on") or name == "style"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]


def read(page: str) -> Marks:
    marks = Marks()
    marks.feed(page)
    assert not marks.odd, marks.odd
    assert all(link.startswith(("/", "#")) and not link.startswith("//") for link in marks.links), marks.links
    shown = re.sub(r'value="[^"]*"', "", page)  # what a form has must be what its page was asked for
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2028]", shown)
    return marks


def test_texts_of_a_store_are_text(ask: Asker, hostile: Path):
    client, before = ask(hostile), digests(hostile)
    seen: set[str] = set()
    todo = ["/", "/0/topics", "/0/groups", "/0/retention", "/0/waiting", "/0/tail?topic=Plain", "/search?q=a&how=text"]
    while todo and len(seen) < 700:
        place = todo.pop()
        if place in seen:
            continue
        seen.add(place)
        answer = client.get(place)
        # The queue's form has its fields beside its address.
        assert answer.status_code in (200, 404) or place == "/0/queue", (
            place,
            answer.text,
        )  # a form without its fields
        if answer.headers["content-type"].startswith("text/html"):
            todo += [html.unescape(link) for link in read(answer.text).links if link.startswith("/0/")]
    assert len(seen) > 400
    assert digests(hostile) == before


def test_a_hundred_texts_asked_for_are_text(ask: Asker, shop: Path):
    client = ask(shop)
    texts = hostile_texts()
    assert len(texts) == 100
    for text in texts:
        for place in ("/search?how=text&q=", "/0/topic?name=", "/0/topics?q=", "/0/tail?topic=", "/0/message?id="):
            answer = client.get(place + quote(text))
            assert answer.status_code in (200, 400, 404), (place, text)
            read(answer.text)


def paths() -> list[str]:
    up = ["../", "..%2f", "%2e%2e/", "%252e%252e%252f", "..\\", "....//", "..;/", "%c0%ae%c0%ae/", "/", "./"]
    return [
        f"/{begin}{part * 6}etc/passwd" for part in up for begin in ("static/", "0/", "0/body/", "0/tail/", "search/")
    ]


def test_no_address_is_a_path(ask: Asker, shop: Path):
    client = ask(shop)
    assert len(paths()) == 50
    for path in paths():
        answer = client.get(path)
        assert answer.status_code in (400, 404, 405), (path, answer.status_code)
        assert "root:x" not in answer.text
    for name in ("file", "path", "name", "store", "at", "number"):
        for page in ("message", "bytes", "finding", "body", "topic"):
            answer = client.get(f"/0/{page}?{name}=/etc/passwd")
            assert "root:x" not in answer.text and (page == "bytes" or answer.status_code in (400, 404))


HOSTS = [
    "evil.example", "evil.example:8090", "localhost.evil.example", "127.0.0.1.evil.example", "", "a b", "[::1", "::1]",
    "0.0.0.0", "10.0.0.1:8090", "[fe80::1]:8090", "127.0.0.1@evil.example", "xn--localhost",
]  # fmt: skip
ORIGINS = [
    "http://evil.example",
    "null",
    "http://127.0.0.1:1",
    "http://localhost",
    "file://",
    "http://127.0.0.1:8090.evil",
    "",
]


@pytest.mark.parametrize("host", HOSTS)
def test_another_host_is_refused(ask: Asker, shop: Path, host: str):
    answer = ask(shop).get("/", headers={"Host": host})
    assert answer.status_code == 421 and "Orders" not in answer.text


@pytest.mark.parametrize("origin", ORIGINS)
def test_another_origin_is_refused(ask: Asker, shop: Path, origin: str):
    answer = ask(shop).get("/?format=json", headers={"Origin": origin})
    assert answer.status_code == 403 and "Orders" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:8090", "localhost:9999", "LOCALHOST", "[::1]:8090", "127.0.0.1"])
def test_this_machine_may_ask_by_any_port(ask: Asker, shop: Path, host: str):
    answer = ask(shop).get("/", headers={"Host": host, "Origin": f"http://{host}"})
    assert answer.status_code == 200


def test_scripts_of_other_sites_may_not_ask(ask: Asker, shop: Path):
    client = ask(shop)
    script = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client.get("/?format=json", headers=script).status_code == 403
    assert client.get("/", headers=link).status_code == 200


def test_every_answer_has_the_headers(ask: Asker, shop: Path):
    client = ask(shop)
    for place in ("/", "/nothing", "/0/topics?format=json", "/static/ui.js", "/0/queue?queue=x", "/search?q=a"):
        headers = client.get(place).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert "set-cookie" not in headers
    assert client.get("/", headers={"Host": "evil"}).headers["x-frame-options"] == "DENY"


def test_only_a_form_of_this_server_begins_a_check(ask: Asker, shop: Path):
    client = ask(shop)
    for key in ("", "wrong", client.ui.key[:-1]):
        answer = client.post("/0/health", data={"action": "start", "key": key})
        assert answer.status_code == 403 and not client.ui.checks
    assert client.post("/0/health", content=b"x" * 10_000).status_code == 413
    foreign = client.post(
        "/0/health", data={"action": "start", "key": client.ui.key}, headers={"Origin": "http://evil"}
    )
    assert foreign.status_code == 403 and not client.ui.checks
    mine = client.post("/0/health", data={"action": "start", "key": client.ui.key}, headers={"Origin": "null"})
    assert mine.status_code == 303 and client.ui.checks


def test_other_methods_are_refused(ask: Asker, shop: Path):
    client = ask(shop)
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "POST"):
        assert client.request(method, "/0/topics").status_code == 405
    assert client.head("/0/topics").status_code == 200


def basic(password: str, user: str = "me") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_an_address_that_others_reach_asks_for_the_password(ask: Asker, shop: Path):
    token = "a-long-token-of-the-test"
    client = ask(shop, token=token, host="0.0.0.0")
    wrong = [
        {}, basic(""), basic(token[:-1]), basic(token + "x"), {"Authorization": f"Bearer {token}"},
        {"Authorization": "Basic"}, {"Authorization": "Basic %%%"}, {"Authorization": "Basic " + token},
    ]  # fmt: skip
    for headers in wrong:
        answer = client.get("/", headers=headers)
        assert answer.status_code == 401 and "Orders" not in answer.text
        assert answer.headers["www-authenticate"].startswith("Basic ")
    assert client.get("/", headers=basic(token)).status_code == 200
    assert client.get("/static/ui.css", headers={}).status_code == 401
    assert client.get("/", headers=basic(token) | {"Host": "10.1.2.3:8090"}).status_code == 200
    assert client.get("/", headers=basic(token) | {"Host": "evil.example"}).status_code == 421


def test_a_page_names_files_of_its_store_alone(ask: Asker, shop: Path):
    outside = os.path.dirname(os.path.dirname(shop))
    page = ask(shop).get("/0/bytes?at=0").text
    assert str(shop) in html.unescape(page) and outside + "/secret" not in page
