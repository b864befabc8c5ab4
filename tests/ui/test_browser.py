"""Pages in Chromium: wide and narrow, light and dark, by keyboard, with hostile texts; the pictures of the docs."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flintmq.cli.body_option import Bodies
from flintmq.cluster.members import find_members
from flintmq.config.keys import StoreConfig
from flintmq.lake.export.export_once import export
from flintmq.message import Message
from flintmq.store.message_store import MessageStore
from flintmq.testing.write_store import write_store
from flintmq.ui.app import Ui
from flintmq.ui.export import NamedTable
from flintmq.ui.server import UiServer
from tests.lake.stats import browser
from tests.ui.conftest import SMALL, allowed, digests, hostile_texts

DAY_MS = 24 * 3600 * 1000
PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
PAGES = {
    "store": "/", "topics": "/0/topics", "topic": "/0/topic?name=Orders", "queue": "/0/queue?topic=Orders&queue=0",
    "message": "/0/message?topic=Orders&queue=0&offset=430", "bytes": "/0/bytes?at=0", "groups": "/0/groups",
    "group": "/0/group?name=billing", "waiting": "/0/waiting", "retention": "/0/retention", "health": "/0/health",
    "tail": "/0/tail?topic=Orders", "search": "/search", "found": "/search?q=order-42", "export": "/export",
    "error": "/0/topic?name=Order", "wrong": "/search?q=order-42&since=never",
}  # fmt: skip


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.launched() as found:
        yield found


@contextmanager
def served(*stores: Path, history: Path | None = None) -> Iterator[UiServer]:
    config, given = StoreConfig(), [str(store) for store in stores]
    members = find_members(given[0] if len(given) == 1 else given, config, slaves=True)
    table = None if history is None else NamedTable(str(history), None, given, config)
    with UiServer(Ui(members, config, Bodies(False), table=table), "127.0.0.1", 0) as server:
        yield server


@contextmanager
def opened(chromium: Any, server: UiServer, width: int = 1400, dark: bool = False, **more: Any) -> Iterator[Any]:
    """A page that reaches its server alone, and whose console and errors must stay empty."""
    scheme = "dark" if dark else "light"
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **more)
    page = context.new_page()
    odd: list[str] = []
    page.on("console", lambda message: odd.append(message.text) if "status of 40" not in message.text else None)
    page.on("pageerror", lambda error: odd.append(str(error)))
    page.on("request", lambda asked: odd.append(asked.url) if not asked.url.startswith(server.url) else None)
    page.server = server.url.rstrip("/")
    yield page
    assert not odd, odd
    context.close()


def fits(page: Any) -> bool:
    """Whether the page does not scroll sideways."""
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def unsaid(page: Any) -> list[str]:
    """What axe does not look for: tables without heads, ids that are there twice, meters without a name."""
    return page.evaluate(
        """() => {
        const all = (what) => [...document.querySelectorAll(what)], ids = all("[id]").map((one) => one.id);
        return [...all("table:not(:has(th)), :is(meter, progress):not([aria-label])").map((one) => one.outerHTML),
            ...ids.filter((id, number) => ids.indexOf(id) !== number)]; }"""
    )


def is_well_made(page: Any) -> None:
    """The page does not scroll sideways, and neither axe nor we find a fault in it."""
    assert fits(page), page.url
    assert not (found := browser.axe(page) + unsaid(page)), (page.url, found)


def shot(page: Any, name: str) -> None:
    """Keep a picture where FLINTMQ_SHOTS says, for who looks."""
    if folder := os.environ.get("FLINTMQ_SHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_each_page_fits_and_is_legible(chromium: Any, shop: Path, exported: Path, width: int, dark: bool):
    before = digests(shop, exported)
    with served(shop, history=exported) as server, opened(chromium, server, width, dark) as page:
        for name, place in PAGES.items():
            page.goto(page.server + place, wait_until="load" if name != "tail" else "domcontentloaded")
            shot(page, f"{name}-{width}-{'dark' if dark else 'light'}")
            is_well_made(page)
    assert digests(shop, exported) == before


def test_axe_finds_what_is_wrong(chromium: Any):
    page = chromium.new_page()
    page.set_content("<p style='color:#999'>faint</p><input><meter></meter><table><tr><td id=a></table><p id=a>")
    found = browser.axe(page)
    assert {"color-contrast", "label", "html-has-lang", "page-has-heading-one"} <= {one.split(":")[0] for one in found}
    assert len(unsaid(page)) == 3
    page.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_damage_is_legible(chromium: Any, damaged: Path, dark: bool):
    places = {
        "health": "/0/health", "finding": "/0/finding?number=0", "finding-unit": "/0/finding?number=1",
        "lost": "/0/queue?topic=Orders&queue=0&offset=20", "lost-search": "/search?q=order-30",
        "passed-search": "/search?q=order-45", "passed": "/0/message?topic=Orders&queue=0&offset=40", "store": "/",
    }  # fmt: skip
    before = digests(damaged)
    with served(damaged) as server:
        for width in (1400, 400):
            with opened(chromium, server, width, dark) as page:
                page.goto(page.server + "/0/health")
                page.get_by_role("button", name="Check").click()
                page.wait_for_selector("text=Check again")
                for name, place in places.items():
                    page.goto(page.server + place)
                    shot(page, f"damaged-{name}-{width}-{'dark' if dark else 'light'}")
                    is_well_made(page)
    assert digests(damaged) == before


def test_several_stores(chromium: Any, shop: Path, hostile: Path):
    for width, dark in ((1400, False), (400, False), (1400, True), (400, True)):
        with served(shop, hostile) as server, opened(chromium, server, width, dark) as page:
            for place in ("/", "/search", "/search?since=never", "/7/"):
                page.goto(page.server + place)
                shot(page, f"stores-{len(place)}-{width}-{'dark' if dark else 'light'}")
                is_well_made(page)


def test_hostile_texts_run_nothing(chromium: Any, hostile: Path, tmp_path: Path):
    before = digests(hostile)
    table = tmp_path / "<script>window.ran=1</script>"
    export(str(hostile), str(table), topics=["Plain", allowed(hostile_texts()[0])[:40].replace("/", "|")])
    with served(hostile, history=table) as server, opened(chromium, server, 400) as page:
        places = [
            "/",
            "/0/topics",
            "/0/groups",
            "/0/retention",
            "/0/waiting",
            "/search?q=window&how=text",
            "/0/tail?topic=Plain",
            "/export",
        ]
        places += [f"/0/message?at={hit.physical_offset}" for hit in messages_of(hostile)[:40]]
        places += [f"/0/bytes?at={hit.physical_offset}" for hit in messages_of(hostile)[:10]]
        for place in places:
            page.goto(page.server + place, wait_until="domcontentloaded")
            assert page.evaluate("window.ran") is None, place
            assert page.url == page.server + place
            assert fits(page), place
            if place in places[:7]:
                shot(page, f"hostile-{places.index(place)}")
                is_well_made(page)
    assert digests(hostile) == before


def messages_of(root: Path) -> list[Any]:
    from flintmq.store.view import open_store

    with open_store(root) as view:
        return list(view.messages())


def test_a_search_is_done_by_keyboard_alone(chromium: Any, shop: Path):
    with served(shop) as server, opened(chromium, server) as page:
        page.goto(page.server)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        while page.evaluate("document.activeElement.id") != "q-top":
            page.keyboard.press("Tab")
            ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert ring == "solid", page.evaluate("document.activeElement.outerHTML")
        page.keyboard.type("order-42")
        page.keyboard.press("Enter")
        page.wait_for_selector("tr.ending")
        link = page.locator("tbody a[href*=message]").first
        link.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/0/message?**")
        assert "order-42" in page.locator("h1").text_content()


def test_pages_work_without_script(chromium: Any, shop: Path, exported: Path):
    with served(shop, history=exported) as server, opened(chromium, server, java_script_enabled=False) as page:
        page.goto(page.server + "/search?q=order-42")
        assert page.locator("tbody a[href*=message]").count() == 1
        page.goto(page.server + "/0/health")
        page.get_by_role("button", name="Check this store").click()
        page.wait_for_selector("text=No defects")
        page.goto(page.server + "/export")
        page.get_by_role("button", name="Compare").click()
        page.wait_for_selector("text=Equal")
        shot(page, "compared")


def test_a_tail_shows_new_messages(chromium: Any, tmp_path: Path):
    root = tmp_path / "store"
    with MessageStore(root, config=SMALL) as store:
        store.put(Message("T", b"old", keys="k0"))
        with served(root) as server, opened(chromium, server) as page:
            page.goto(page.server + "/0/tail?topic=T", wait_until="domcontentloaded")
            page.wait_for_selector("text=live: 0 new")
            begun = time.monotonic()
            store.put(Message("T", b"<img src=x onerror=window.ran=1>", keys="k1"))
            page.wait_for_selector("text=k1")
            print(f"a new message was shown after {time.monotonic() - begun:.2f} s")
            assert page.locator("tr.new td.body").text_content() == "<img src=x onerror=window.ran=1>"
            page.get_by_role("button", name="Pause").click()
            page.wait_for_selector("text=paused")
            assert page.evaluate("window.ran") is None


def test_pictures_of_the_docs(chromium: Any, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Written again with FLINTMQ_PICTURES=1."""
    monkeypatch.chdir(tmp_path)  # the pages then name no directory of this machine
    shutil.copytree(shop, "shop/store")
    into = PICTURES if os.environ.get("FLINTMQ_PICTURES") else tmp_path
    week = Path("broker-a/store")
    week.parent.mkdir()
    since = int(time.time() * 1000) - 7 * DAY_MS
    names = {"Orders": 5.0, "Payments": 3.0, "Shipments": 2.0, "Refunds": 1.0}
    write_store(week, 60_000, topics=names, start_ms=since, duration_ms=7 * DAY_MS - 60_000, waves=7)
    pictures = (("ui-store", week, "/", 900), ("ui-message", Path("shop/store"), PAGES["message"], 980))
    for name, store, place, height in pictures:
        with served(store) as server, opened(chromium, server, 1200) as page:
            page.set_viewport_size({"width": 1200, "height": height})
            page.goto(page.server + place)
            page.screenshot(path=into / f"{name}.png")
            assert (into / f"{name}.png").stat().st_size > 20_000
