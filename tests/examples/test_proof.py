"""The demo's proofs hold where they should, and fail where they should."""

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from examples.demo import orders, proof

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")


def test_a_difference_in_files_ends_it(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "consumequeue" / "T" / "0").mkdir(parents=True)
        (tmp_path / name / "index").mkdir()
        (tmp_path / name / "consumequeue" / "T" / "0" / "0").write_bytes(b"same")
        (tmp_path / name / "index" / name).write_bytes(b"same")
    assert proof.same_files(tmp_path / "a", tmp_path / "b") == 2
    (tmp_path / "b" / "index" / "b").write_bytes(b"other")
    with pytest.raises(SystemExit, match="not equal: index 0"):
        proof.same_files(tmp_path / "a", tmp_path / "b")
    shutil.rmtree(tmp_path / "b" / "consumequeue")
    with pytest.raises(SystemExit, match="not equal: consumequeue/T/0/0, index 0"):
        proof.same_files(tmp_path / "a", tmp_path / "b")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("proof") / "store"
    orders.take(path, 300, 0)
    return path


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda rows: rows, None),
        (lambda rows: rows.slice(1), "the table lacks 1 of 300 orders"),
        (lambda rows: pa.concat_tables([rows, rows.slice(5, 2)]), "the table has 2 orders twice"),
        (
            lambda rows: rows.set_column(5, "body", pa.array([b"x"] * 300, pa.binary())),
            "the table's rows are not those of the log",
        ),
    ],
    ids=["all", "one less", "two twice", "other bodies"],
)
def test_the_count(change, complaint: str | None, store: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    import flintmq

    assert proof.rows_of(tmp_path / "table") == 0
    rows = change(flintmq.scan_arrow(store, columns=proof.COLUMNS).read_all())
    deltalake.write_deltalake(str(tmp_path / "table"), rows)
    assert proof.rows_of(tmp_path / "table") == rows.num_rows
    if complaint is None:
        said = proof.exactly_once(store, tmp_path / "table", 300, 200)
        assert said[1] == "table: 300 rows, 300 different orders, none missing, none twice"
    else:
        with pytest.raises(SystemExit, match=complaint):
            proof.exactly_once(store, tmp_path / "table", 300, 200)


def test_a_log_that_lacks_what_was_acknowledged(store: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="the log lacks 100 of 400 orders"):
        proof.exactly_once(store, _table(store, tmp_path), 400, 350)


def _table(store: Path, tmp_path: Path) -> Path:
    import flintmq

    deltalake.write_deltalake(str(tmp_path / "t"), flintmq.scan_arrow(store, columns=proof.COLUMNS).read_all())
    return tmp_path / "t"


def test_the_picture_has_both_lines() -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    seen = [(0.0, 0, 0), (0.9, 100, 0), (2.1, 300, 200), (4.0, 300, 300)]
    root = ET.fromstring(proof.picture(seen, [(2.2, "engine killed")]))
    svg = "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in root.iter(f"{svg}text")]
    assert "Orders taken, and orders in the table, killed after 2 s" in texts and "in the Delta table" in texts
    assert len(list(root.iter(f"{svg}polyline"))) == 2
