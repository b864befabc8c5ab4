"""Results as tables: in a notebook, as Arrow, pandas and Polars."""

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import flintmq
from flintmq.errors import MissingExtraError, UsageError
from flintmq.tabular import ROWS_SHOWN, html

HOSTILE = "<script>alert(1)</script>&\"'"


class Cells(HTMLParser):
    """The texts of a table's cells, row by row; any other tag is kept in `others`."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.others: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag not in ("table", "p"):
            self.others.add(tag)

    def handle_data(self, data: str) -> None:
        if self.rows:
            self.rows[-1][-1] += data


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A store of three messages, one of them with markup in all that its sender chose."""
    with flintmq.MessageStore(tmp_path / "shop", dev=True, unique_keys=False) as store:
        store.put(flintmq.Message("Orders", b"one", tags="paid", keys="k1"))
        store.put(flintmq.Message("Orders", HOSTILE.encode(), tags=HOSTILE, keys="k2"))
        store.put(flintmq.Message("Orders", b"x" * 5000, queue_id=1, keys="k3"))
        store.wait_dispatched(60)
    return tmp_path / "shop"


def test_a_view_shows_its_queues_and_messages_what_they_say(shop: Path):
    with flintmq.open_store(shop) as view:
        assert Cells(view._repr_html_()).rows == [
            ["topic", "queue_id", "min_offset", "max_offset", "type"],
            ["Orders", "0", "0", "2", "SimpleCQ"],
            ["Orders", "1", "0", "1", "SimpleCQ"],
        ]
        batch = view.read("Orders", 0, 0)
        shown = Cells(batch._repr_html_())
        assert shown.others == set() and [row[4] for row in shown.rows] == ["tags", "paid", HOSTILE]
        assert shown.rows[1][:3] == ["Orders", "0", "0"] and shown.rows[1][-1] == "b'one'"
        assert shown.rows[1][3] == str(view.get("Orders", 0, 0).stored)
        alone = dict(Cells(view.get("Orders", 1, 0)._repr_html_()).rows[1:])
        assert alone["keys"] == "k3" and alone["tags"] == "" and alone["body"].endswith("... (5000 bytes)")


def test_a_long_table_is_cut_and_says_so():
    rows = ((number, "x" * 1000) for number in range(10**9))
    text = html(("n", "text"), rows)
    assert len(Cells(text).rows) == ROWS_SHOWN + 1 and "The first 50 rows." in text and len(text) < 10_000
    assert "rows" not in html(("n",), ((number,) for number in range(ROWS_SHOWN)))


@pytest.mark.parametrize("to", ["to_arrow", "to_pandas", "to_polars"])
def test_every_door_gives_the_rows_of_a_scan(shop: Path, to: str):
    for needed in ("pyarrow", "pandas", "polars"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")

    def keys(table: Any) -> list[str]:
        column = getattr(table, to)(["keys", "body"])["keys"]
        return list(column.to_pylist() if to == "to_arrow" else column)

    with flintmq.MessageStore(shop, dev=True) as store, flintmq.open_store(shop) as view:
        assert (
            keys(view) == keys(flintmq.dataset(shop)) == keys(flintmq.Messages(view.messages())) == ["k1", "k2", "k3"]
        )
        assert keys(view.read("Orders", 0, 0)) == keys(store.get("Orders", 0, 0)) == ["k1", "k2"]
        assert keys(store.get_batch("Orders", 0, 0)) == ["k1", "k2"]
        assert keys(view.query("Orders", "k3")) == keys(store.query("Orders", "k3")) == ["k3"]
        assert keys(view.query("Orders", "nothing")) == keys(store.get("Orders", 0, 2)) == []


def test_a_view_is_read_as_asked_and_as_it_was(shop: Path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with flintmq.MessageStore(shop, dev=True) as store, flintmq.open_store(shop) as view:
        assert view.max_physical_offset == store.get("Orders", 1, 0).messages[0].physical_offset + 5105, "it looked"
        store.put(flintmq.Message("Orders", b"later", keys="k4"))
        assert view.to_arrow(["keys"])["keys"].to_pylist() == ["k1", "k2", "k3"]
        assert view.to_arrow(["keys"], topics="Orders", queues=[1])["keys"].to_pylist() == ["k3"]
        view.refresh()
        assert view.to_arrow().num_rows == 4
        with pytest.raises(UsageError, match="no_such"):
            view.query("Orders", "k1").to_arrow(["no_such"])
    with pytest.raises(UsageError, match="closed"):
        view.to_arrow()


def test_frames_say_what_they_are(shop: Path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    source = flintmq.dataset(shop)
    assert repr(source) == f"<flintmq.StoreDataset of {shop!r}, {len(flintmq.COLUMNS)} columns>"
    assert Cells(source._repr_html_()).rows[:2] == [["column", "type"], ["topic", "string"]]
    with flintmq.MessageStore(shop, dev=True) as store:
        got = store.get_batch("Orders", 0, 0, columns=["keys", "size"])
    assert Cells(got._repr_html_()).rows == [["column", "type"], ["keys", "string"], ["size", "int32"]]


def test_properties_are_dicts_in_pandas(shop: Path):
    for needed in ("pyarrow", "pandas"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    with flintmq.open_store(shop) as view:
        assert view.query("Orders", "k1").to_pandas()["properties"][0] == {"KEYS": "k1", "TAGS": "paid"}


def test_a_package_that_is_missing_is_named(shop: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    found = flintmq.Messages()
    with pytest.raises(MissingExtraError, match="to_pandas needs pandas: pip install pandas"):
        found.to_pandas()
    with pytest.raises(MissingExtraError, match=r"to_polars needs polars: pip install 'flintmq\[polars\]'"):
        found.to_polars()


def test_a_result_needs_no_package_to_be_shown(shop: Path):
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import flintmq\n"
        f"with flintmq.open_store({str(shop)!r}) as view:\n"
        "    assert 'k1' in view.query('Orders', 'k1')._repr_html_()\n"
        "    try: view.to_arrow()\n"
        "    except flintmq.MissingExtraError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'flintmq[arrow]'" in done.stdout
