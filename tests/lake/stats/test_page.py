"""The page of statistics: nothing that a message says becomes part of it, and a browser shows it."""

import html
import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

from flintmq.arrow.schema import SPARK_SCHEMA, narrow
from flintmq.lake.stats.accumulate import COLUMNS, Tally
from flintmq.lake.stats.compare import compared
from flintmq.lake.stats.lag import Lag
from flintmq.lake.stats.page import MARK, page
from flintmq.lake.stats.run import stats
from flintmq.lake.stats.statistics import Statistics, statistics
from flintmq.testing import write_store
from tests.lake.stats import browser

HOSTILE = "<script>document.title='broken'</script>\"><img src=x onerror=\"document.title='broken'\">"
EMPTY = {"br", "hr", "img", "input", "link", "meta"}


class Outline(HTMLParser):
    """Which elements there are, and whether each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def hostile() -> Statistics:
    """Statistics of messages whose every text is an attack."""
    count = 1200
    rows = {
        "topic": [HOSTILE] * count, "queue_id": [0] * count, "queue_offset": range(count), "keys": ["<b>k</b>"] * count,
        "msg_id": [HOSTILE] * count, "born_timestamp": [1_700_000_000_000_000 + i for i in range(count)],
        "born_host": ["<i>h</i>:99"] * count,
        "store_timestamp": [1_700_000_000_005_000 + 1000 * i for i in range(count)],
        "size": [300] * count,
    }  # fmt: skip
    tally = Tally()
    tally.add(pa.RecordBatch.from_pydict({n: list(rows[n]) for n in COLUMNS}, schema=narrow(COLUMNS, SPARK_SCHEMA)))
    found = statistics(tally, [Lag(HOSTILE, "</td><script>g\u202e", 1, 5000, 5000, 1_700_000_000_005, 7, 1)])
    found.store, found.notes = f"/tmp/{HOSTILE}", {"<u>n</u>": 1}
    return found


def test_what_messages_say_is_text() -> None:
    text = page(hostile())
    found = Outline(text)
    assert text.startswith(MARK) and found.open == []
    assert found.tags.isdisjoint({"script", "img", "b>k", "u", "link", "iframe", "object"})
    assert not any(name.startswith("on") for name in found.attributes) and "src" not in found.attributes
    assert "default-src 'none'" in text and "\u202e" not in text
    shown = "".join(found.text)
    assert "<b>k</b>" in shown and "<i>h</i>" in shown and "</td><script>g\\u202e" in shown


def test_nothing_is_fetched() -> None:
    text = page(hostile())
    assert not re.search(r"https?://|url\(|@import|//[a-z]+\.", text)


def test_a_store_without_messages() -> None:
    text = page(statistics(Tally(), []))
    assert "No messages in this range." in text and Outline(text).open == []


LOOK = """<script>
const box = e => e.getBoundingClientRect(), shown = e => box(e).width > 0, all = s => [...document.querySelectorAll(s)];
const texts = all("svg text").filter(shown), inner = t => box(t.closest("svg"));
const tells = e => getComputedStyle(e).backgroundImage.includes("gradient")
    && (innerWidth > 640 || getComputedStyle(e, "::before").display == "block");
parent.document.title = JSON.stringify({
    width: innerWidth, page: document.documentElement.scrollWidth, plots: all("svg").filter(shown).length,
    least: Math.min(...texts.map(t => box(t).height)), tiles: all(".tile").map(e => Math.round(box(e).top)),
    cut: texts.filter(t => box(t).left < inner(t).left - 1 || box(t).right > inner(t).right + 1).length,
    silent: all(".wide").filter(e => e.scrollWidth > e.clientWidth && !tells(e)).length,
    broken: all("td .name").filter(e => e.textContent.length < 12 && box(e).height > 30).map(e => e.textContent),
});
</script></body>"""  # for the test's copy only: the page itself forbids scripts


@pytest.mark.parametrize(("width", "a_row"), [(1280, 4), (400, 2)])
def test_it_can_be_read_on_a_screen_and_on_a_phone(tmp_path: Path, width: int, a_row: int) -> None:
    """Letters in plots as high as others, nothing cut, tiles side by side, and tables that say that they go on."""
    browser.find()
    text = page(hostile())
    policy = re.search(r"<meta http-equiv=[^>]*>", text)
    assert policy
    framed = html.escape(text.replace(policy[0], "").replace("</body>", LOOK))
    file = tmp_path / "page.html"  # in a frame, since a window of Chromium is at least 500 px wide
    file.write_text(f'<iframe style="width:{width}px;height:3000px;border:0" srcdoc="{framed}">', encoding="utf-8")
    dom = browser.run(file, tmp_path / "profile", "--window-size=1400,3200", "--dump-dom")
    seen = json.loads(html.unescape(re.search("<title>(.*?)</title>", dom)[1]))  # type: ignore[index]
    assert seen["width"] == width and seen["page"] <= width and seen["plots"] == 5 and seen["least"] >= 11
    assert (seen["cut"], seen["silent"], seen["broken"]) == (0, 0, [])
    assert seen["tiles"].count(seen["tiles"][0]) == a_row


PRINTED = """<script>
const all = s => [...document.querySelectorAll(s)], style = (e, part) => getComputedStyle(e, part);
parent.document.title = JSON.stringify({
    ground: style(document.body).backgroundColor, ink: style(document.body).color,
    wide: document.documentElement.scrollWidth,
    hints: all(".wide").filter(e => style(e, "::before").display + style(e).backgroundImage != "nonenone").length,
    cut: all(".wide").filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.getAttribute("aria-label")),
    shown: all(".wide").length, commands: all("code").filter(e => e.getBoundingClientRect().height > 0).length,
});
</script></body>"""
A4_PX = 703  # the width of A4 without its margins


def test_it_is_printed_white_and_whole_from_a_dark_screen(tmp_path: Path) -> None:
    """No grey ground, no hints that something scrolls, nothing beyond the edge of the sheet."""
    browser.find()
    text = page(hostile())
    policy = re.search(r"<meta http-equiv=[^>]*>", text)
    assert policy and text.count("@media print") == 2
    as_printed = text.replace("@media print", "@media all").replace(policy[0], "").replace("</body>", PRINTED)
    file = tmp_path / "page.html"
    file.write_text(
        f'<iframe style="width:{A4_PX}px;height:9000px;border:0" srcdoc="{html.escape(as_printed)}">', encoding="utf-8"
    )
    words = ("--blink-settings=preferredColorScheme=0", "--window-size=1400,3200", "--dump-dom")
    dom = browser.run(file, tmp_path / "profile", *words)
    seen = json.loads(html.unescape(re.search("<title>(.*?)</title>", dom)[1]))  # type: ignore[index]
    assert (seen["ground"], seen["ink"]) == ("rgb(255, 255, 255)", "rgb(29, 36, 48)")
    assert seen["wide"] <= A4_PX and seen["shown"] > 5
    assert (seen["hints"], seen["cut"], seen["commands"]) == (0, [], 0)


def sheets_of(text: str, tmp_path: Path) -> dict[str, tuple[int, int]]:
    """Print a page: card -> the sheets on which it begins and ends, by links that are put there."""
    number = 0

    def marked(found: re.Match[str]) -> str:
        nonlocal number
        number += not found[0].startswith("</")
        link = f'<a href="https://card/{number}{"end" if found[0].startswith("</") else "begin"}">.</a>'
        return link + found[0] if found[0].startswith("</") else found[0] + link

    file, out = tmp_path / "page.html", tmp_path / "page.pdf"
    file.write_text(re.sub(r"<section[^>]*>|</section>", marked, text), encoding="utf-8")
    browser.run(file, tmp_path / "profile", f"--print-to-pdf={out}", "--no-pdf-header-footer")
    pdf = out.read_bytes().decode("latin-1")
    objects = {int(found[1]): found[2] for found in re.finditer(r"(\d+) 0 obj\n(.*?)endobj", pdf, re.DOTALL)}
    pages = [text for text in objects.values() if re.search(r"/Type\s*/Page\b", text)]
    assert all("/MediaBox [0 0 594.9" in page and " 841.9" in page for page in pages)  # A4 in points
    ends: dict[str, list[int]] = {}
    for sheet, page_text in enumerate(pages):
        listed = re.search(r"/Annots\s*\[([^\]]*)\]", page_text)
        for place in re.findall(r"(\d+) 0 R", listed[1] if listed else ""):
            if found := re.search(r"https://card/(\d+)(begin|end)", objects[int(place)]):
                ends.setdefault(found[1], []).append(sheet)
    assert len(ends) == number and all(len(pair) == 2 for pair in ends.values())
    return {card: (min(pair), max(pair)) for card, pair in ends.items()}


def test_no_card_is_cut_by_the_end_of_a_sheet(tmp_path: Path) -> None:
    browser.find()
    store = write_store(
        tmp_path / "orders", 20_000, seed=5, topics=12, queues=8, keys=2, waves=3, duration_ms=3_600_000
    ).path
    older = stats(store, topics=["Orders"]).as_dict() | {"path": "older.json"}
    found = stats(store)
    found.compared = compared(older, found.as_dict())
    sheets = sheets_of(page(found), tmp_path)
    assert len(sheets) == 10 and max(begin for begin, _ in sheets.values()) > 1
    assert [card for card, (begin, end) in sheets.items() if begin != end] == []


def test_each_name_shows_its_command() -> None:
    found = hostile()
    found.asked = {"topics": None, "since": 1_700_000_000_000, "until": None}
    text = page(found, ["/tmp/a b"])
    commands = [html.unescape(one) for one in re.findall("<code>(.*?)</code>", text, re.DOTALL)]
    words = [shlex.split(one) for one in commands if "$'" not in one]
    assert all(one[:3] in (["flintmq", "scan", "/tmp/a b"], ["flintmq", "inspect", "/tmp/a b"]) for one in words)
    since = ["--since", "2023-11-14T22:13:20.000Z"]
    for wanted in (
        ["--topic", HOSTILE, *since],
        ["--topic", HOSTILE, *since, "--queue", "0"],
        ["--topic", HOSTILE, *since, "--key", "<b>k</b>"],
        ["--topic", HOSTILE, "--since", "2023-11-14T22:13:20.005Z"],  # of the group, from the oldest waiting one on
    ):
        assert ["flintmq", "scan", "/tmp/a b", *wanted] in words
    steps = [one for one in words if one[3] == "--since" and "--until" in one]
    assert len(steps) == sum(any(counts) for counts in zip(*found.over_time["messages"].values(), strict=True)) > 10
    assert text.count('title="copy as command"') == len(commands)


def test_words_are_those_of_newcomers() -> None:
    shown = "".join(Outline(page(hostile())).text)
    assert "median" in shown and "99th percentile" in shown and "half;" not in shown
    assert not re.search(r"\d[kMG]B\b", shown)  # one system of units: KiB, MiB


def test_a_browser_shows_it_and_runs_nothing(tmp_path: Path) -> None:
    browser.find()
    file = tmp_path / "page.html"
    file.write_text(page(hostile()), encoding="utf-8")
    dom = browser.dom(file, tmp_path / "profile")
    assert "<title>Statistics of " in dom and "<title>broken" not in dom
    found = Outline(dom.removeprefix(MARK))
    assert "script" not in found.tags and "img" not in found.tags
    assert "1,200" in found.text and "<b>k</b>" in found.text


def test_axe_finds_nothing(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    found = hostile()
    found.compared = compared(found.as_dict() | {"path": "older.json"}, found.as_dict())
    file.write_text(page(found), encoding="utf-8")
    with browser.launched() as chromium:
        for width, scheme in ((1400, "light"), (400, "light"), (1400, "dark"), (400, "dark")):
            shown = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            shown.goto(file.as_uri())
            assert browser.axe(shown) == [], (width, scheme)
