"""Completion by the Tab key, as the shells ask for it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flintmq.cli.completion import COMPLETE, candidates
from flintmq.cli.names import COMMANDS, GROUPS
from flintmq.errors import FlintError
from tests.cli.conftest import Run
from tests.cli.test_parser import cpu_seconds
from tests.compat.stores import Golden


def offered(*words: str) -> list[str]:
    return [word for word, _ in candidates(words)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ta", ["tail"]),
        ("spark e", ["export"]),
        ("retention ", ["explain"]),
        ("-q spark rep", ["replay"]),
        ("verify x --acc", ["--access"]),
        ("verify x --access ", ["pread", "map"]),
        ("verify x --access=m", ["--access=map"]),
        ("export x --to d", ["delta"]),
        ("export --to delta x --compression z", ["zstd"]),
        ("completion f", ["fish"]),
        ("tail STORE Or", ["Orders"]),
        ("tail STORE -f -n 5 Or", ["Orders"]),
        ("tail STORE ", ["Orders", "Payments", "Shipments", "库存"]),
        ("scan STORE --topic P", ["Payments"]),
        ("scan --topic Orders STORE --topic=库", ["--topic=库存"]),
        ("put STORE Sh", ["Shipments"]),
        ("get STORE Orders ", []),
        ("scan STORE ", []),
        ("tail nowhere ", []),
        ("tail s3://bucket/store ", []),
        ("scan STORE --grep O", []),
    ],
)
def test_what_is_offered(words: str, expected: list[str], golden: Callable[[str], Golden]) -> None:
    assert offered(*words.replace("STORE", str(golden("basic").path)).split(" ")) == expected


def test_commands_groups_and_options_are_offered() -> None:
    assert set(offered("")) == {name.split()[0] for name in COMMANDS} | (GROUPS.keys() - {""})
    shown = offered("tail", "store", "T", "-")
    assert {"--since", "--limit", "-n", "--help"} <= set(shown) and not {"--from", "--lines"} & set(shown)
    assert dict(candidates(["tai"])) == {"tail": COMMANDS["tail"][1]}


@pytest.mark.parametrize("words", ["scn sto", "scan --bogus x"])
def test_after_what_is_wrong_nothing_is_offered(words: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FlintError):
        offered(*words.split())
    for shell in ("bash", "zsh", "fish", "complete_bash"):
        monkeypatch.setenv(COMPLETE, shell)
        result = run(*words.split())
        assert (result.code, result.out, result.err) == (0, "", "")


def test_a_topic_that_a_shell_would_run_is_not_offered(tmp_path: Path) -> None:
    for name in ("$(reboot)", "a b", "a;b", "a|b", "`x`", "a\nb", "%RETRY%g", "-x", "\u202ex", "*"):
        (tmp_path / "consumequeue" / name).mkdir(parents=True)
    assert offered("tail", str(tmp_path), "") == ["%RETRY%g"]


def complete(line: str, folder: Path, shell: str, cursor: str) -> list[str]:
    """What a shell offers after the line of the manual."""
    command = folder / "flintmq"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m flintmq "$@"\n')
    command.chmod(0o755)
    page = (Path(__file__).parents[2] / "docs" / "operations" / "cli.md").read_text()
    manual = re.search(r"^    (eval .*)$", page, re.MULTILINE)
    assert manual is not None
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    code = cursor.format(manual=manual[1], line=line)
    done = subprocess.run([shell, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done
    return done.stdout.splitlines()


BASH = (
    "{manual}\nCOMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
    'name=$(complete -p flintmq | sed "s/.*-F \\([^ ]*\\).*/\\1/"); $name flintmq; printf "%s\\n" "${{COMPREPLY[@]}}"'
)
"""Asks bash's function for completions as a Tab does; bash takes words apart at `=`."""
FISH = "flintmq completion fish | source; complete -C '{line}' | cut -f1"


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("flintmq ta", ["tail"]),
        ("flintmq retention ex", ["explain"]),
        ("flintmq tail STORE Or", ["Orders"]),
        ("flintmq tail STORE ''", ["Orders", "Payments", "Shipments", "库存"]),
        ("flintmq export STORE --to = d", ["delta"]),
        ("flintmq export STORE --to =", ["parquet", "delta", "iceberg"]),
        ("flintmq scan ''", [""]),
    ],
)
def test_bash_completes_by_the_line_of_the_manual(
    line: str, expected: list[str], golden: Callable[[str], Golden], tmp_path: Path
) -> None:
    assert complete(line.replace("STORE", str(golden("basic").path)), tmp_path, "bash", BASH) == expected


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(golden: Callable[[str], Golden], tmp_path: Path) -> None:
    assert complete(f"flintmq tail {golden('basic').path} Or", tmp_path, "fish", FISH) == ["Orders"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_its_script(tmp_path: Path) -> None:
    code = "autoload -Uz compinit && compinit -u -D\n{manual}\nprint ${{_comps[flintmq]}}"
    assert complete("", tmp_path, "zsh", code.replace("completion bash", "completion zsh")) == ["_flintmq_complete"]


@pytest.mark.parametrize(("shell", "expected"), [("zsh", "tail:Show the newest"), ("fish", "tail\tShow the newest")])
def test_other_shells_get_the_help_too(
    shell: str, expected: str, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flintmq.cli import app

    monkeypatch.setenv(COMPLETE, shell)
    assert app.run(["ta"]) == 0 and capsysbinary.readouterr().out.decode().startswith(expected)


def test_a_tab_takes_no_time(golden: Callable[[str], Golden]) -> None:
    """CPU seconds, of which Python itself takes a fifth; other programs may be busy."""
    words = ["tail", str(golden("basic").path), "Or"]
    assert min(cpu_seconds(words, **{COMPLETE: "bash"}) for _ in range(5)) < 0.15
