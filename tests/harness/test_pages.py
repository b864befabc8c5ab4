"""tests/harness/pages.py: how examples are found, run, compared and written anew; tests/support/scenes.py: the same
bytes each time."""

from pathlib import Path

import pytest

from flintmq.forensics.verify.run import verify
from labs.salvaging import tree
from tests.harness import pages
from tests.harness.pages import Command, commands, masked, same
from tests.support.scenes import SCENES

PAGE = """# A page

```console
$ echo one; \\
  echo two
wrong
$ date +%s%N; echo kept; echo out
...
out
$ cat <<'END'
a $ b
END
```

<!-- scene: died -->
```console
$ flintmq inspect store
```

```python
print(6 * 7)
```
```text
41
```
"""


def test_comparing():
    assert same("a\nb 1 ms\n", "a  \nb 1 ms\n\n")
    assert same("a\n...\nb ... ms\n", "a\nx\ny\nb 17.2 ms\n")
    assert same("a\n...\nb\n", "a\nb\n")
    assert same("", "\n")
    assert not same("a\nb\n", "a\n")
    assert not same("a\n...\nb\n", "a\nx\n")
    assert not same("a.c\n", "abc\n")


def test_words_that_differ_between_two_runs_are_masked():
    assert masked("took  3 ms\nsame\n", "took 41 ms\nsame\n") == "took... ms\nsame\n"
    assert masked("in  /a/x/store/f, 1\n", "in  /a/y/store/f, 2\n") == "in  .../store/f, ...\n"
    with pytest.raises(ValueError, match="lines"):
        masked("a\n", "a\nb\n")
    with pytest.raises(ValueError, match="words"):
        masked("a b\n", "a\n")


def test_commands_and_their_outputs():
    found = list(commands("$ a \\\n  b\nout\n$ cat <<'X' > f\ntext\nX\nmore\n"))
    assert found == [Command("a \\\n  b", "out\n"), Command("cat <<'X' > f\ntext\nX", "more\n")]
    with pytest.raises(ValueError, match="begins with"):
        list(commands("out\n"))


def test_a_page_is_compared_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    complaints = [complaint.partition("\nprints:")[0] for complaint in pages.wrong(page)]
    assert complaints == ["page.md:3: echo one; \\\n  echo two", "page.md:3: cat <<'END'\na $ b\nEND",
                          "page.md:16: flintmq inspect store", "page.md:20: print(6 * 7)\n"]  # fmt: skip
    assert pages.main([str(page), "--write"]) == 0
    text = page.read_text()
    assert (
        "  echo two\none\ntwo\n$ date +%s%N; echo kept; echo out\n...\nout\n$ cat <<'END'\na $ b\nEND\na $ b\n```"
        in text
    )
    assert "state       not stopped cleanly (abort is there)" in text and "```text\n42\n```" in text
    assert pages.wrong(page) == []
    page.write_text(text.replace("state       not stopped", "state       stopped"))
    assert pages.main([str(page)]) == 1


def test_a_program_that_fails_is_an_error(tmp_path: Path):
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        list(pages.run_example(pages.Example("p:1", "python", "1 / 0", None, None), tmp_path))


def test_a_command_alone_runs_here_as_in_a_shell(golden, tmp_path: Path):
    golden("basic").copy(tmp_path)
    for words in ("scan basic --limit 2 --format '{topic} {body}'", "scan basic --topic None"):
        assert pages.ALONE.fullmatch(f"flintmq {words}")
        here = pages._console(f"flintmq {words}", tmp_path, None)
        assert here and here == pages._console(f"flintmq {words} ; true", tmp_path, None)
    for words in (
        "scan basic | head",
        "spark stats basic",
        "get basic a 0 0 > x",
        "scan $HOME",
        "scan *",
        "put x y; ls",
    ):
        assert not pages.ALONE.fullmatch(f"flintmq {words}")


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    example = pages.Example("p:1", "console", "$ echo 1 | jq .\n1\n", None, None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert pages.lacks(example) == "jq is not installed"
    with pytest.raises(RuntimeError, match="jq is not installed"):
        list(pages.run_example(example, tmp_path))


@pytest.mark.parametrize("name", sorted(SCENES))
def test_a_scene_has_the_same_bytes_each_time(name: str, tmp_path: Path):
    SCENES[name](tmp_path / "store")
    first = tree(tmp_path / "store")
    (tmp_path / "store" / "what was there").touch()
    SCENES[name](tmp_path / "store")
    assert tree(tmp_path / "store") == first


def test_a_store_in_use_is_in_use_as_long_as_it_is_there(tmp_path: Path):
    SCENES["in-use"](tmp_path / "store")
    assert verify(tmp_path / "store").live
    SCENES["died"](tmp_path / "store")
    assert not verify(tmp_path / "store").live


def test_a_master_is_served_while_a_block_runs(tmp_path: Path):
    page = tmp_path / "page.md"
    code = 'host, port = "broker:10912".split(":")\nprint(socket.create_connection((host, int(port))).getpeername()[0])'
    words = "flintmq follow broker:10912 --out copy --once --set mappedFileSizeCommitLog=65536"
    show = f"$ {words} 2>&1 | grep -o resumed; echo broker:10912\nresumed\nbroker:10912\n"
    page.write_text(
        f"<!-- master: healthy -->\n```python\nimport socket\n{code}\n```\n```text\n127.0.0.1\n```\n\n"
        f"<!-- master: healthy -->\n```console\n{show}```\n"
    )
    block = pages.BLOCK.search(page.read_text())
    assert block is not None and block[2] == "healthy"
    for match, kind in zip(pages.BLOCK.finditer(page.read_text()), ("python", "console"), strict=True):
        _, master, found, code, _, output = match.groups()
        assert found == kind
        for command, printed in pages.run_example(pages.Example("p:1", kind, code, output, None, master), tmp_path):
            assert "broker:10912" in command.code
            assert pages.same(command.output, printed)
