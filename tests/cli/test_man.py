"""Man pages are what the commands say, and `groff` and `man` read them without a word."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from flintmq.cli.declare import Option, parameters
from flintmq.cli.names import COMMANDS, GROUPS, members
from flintmq.cli.parser import load
from flintmq.errors import UsageError
from tools.docs import man

PAGES = dict(man.pages())
SECTIONS = [
    "NAME",
    "SYNOPSIS",
    "DESCRIPTION",
    "COMMANDS",
    "ARGUMENTS",
    "OPTIONS",
    "EXAMPLES",
    "EXIT STATUS",
    "SEE ALSO",
]


def plain(roff: str) -> str:
    """The text without roff's escapes."""
    return re.sub(r"\\f[BIR]|\\&", "", roff).replace(r"\-", "-").replace(r"\e", "\\")


def test_there_is_one_page_for_each_command_and_each_group() -> None:
    names = {"-".join(["flintmq", *name.split()]) for name in (*COMMANDS, *GROUPS)}
    assert PAGES.keys() == names and len(names) == len(COMMANDS) + len(GROUPS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_has_what_the_command_declares(name: str) -> None:
    text = plain(PAGES["-".join(["flintmq", *name.split()])])
    assert f"\n.SH NAME\nflintmq-{name.replace(' ', '-')} - {COMMANDS[name][1].rstrip('.')}" in text
    assert f"\n.SH SYNOPSIS\nflintmq {name}" in text
    for one in parameters(load(name)):
        term = ", ".join(one.declared.names) or one.declared.metavar
        assert re.search(rf"^\.TP\n{re.escape(term)}.*\n{re.escape(one.declared.help[:40])}", text, re.MULTILINE), term
    assert f"\nflintmq {name}" in text.partition("\n.SH EXAMPLES\n")[2]


def test_the_first_page_has_all_commands_and_exit_codes() -> None:
    text = plain(PAGES["flintmq"])
    for word in members(""):
        assert f"\n.TP\n{word}\n" in text and f"flintmq-{word}(1)" in text
    assert f"\n.TP\n{UsageError.exit_code}\n" in text.partition(".SH EXIT STATUS")[2]


@pytest.mark.parametrize("name", PAGES)
def test_the_parts_are_those_of_man_pages_in_their_order(name: str) -> None:
    found = re.findall(r"^\.SH (.*)$", PAGES[name], re.MULTILINE)
    assert found == [one for one in SECTIONS if one in found] and {"NAME", "SYNOPSIS", "SEE ALSO"} <= {*found}
    requests = {line.split()[0] for line in PAGES[name].splitlines() if line.startswith((".", "'"))}
    assert requests <= {".TH", ".SH", ".PP", ".TP", ".nf", ".fi"}


def test_no_text_is_a_request_or_an_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = [".so /etc/passwd", "'br", "\\fBbold\\fP", "-x", "库存"]

    def command(store: str = "") -> int:
        """Do it."""
        return 0

    monkeypatch.setattr(man, "load", lambda name: command)
    monkeypatch.setattr(man, "COMMANDS", {"odd": ("commands.odd", "Do it.")})
    monkeypatch.setattr(man, "GROUPS", {})
    monkeypatch.setattr(man, "synopsis", lambda name, command: "flintmq odd")
    found = [man.Parameter("a", str, (), False, None, Option(f"--a{number}", text)) for number, text in enumerate(odd)]
    monkeypatch.setattr(man, "parameters", lambda command: found)
    monkeypatch.setattr(man, "import_module", lambda name: type("Module", (), {"EPILOG": "Examples:\n\n  .x"}))
    [(name, page)] = man.pages()
    assert name == "flintmq-odd"
    for line in (r"\&.so /etc/passwd", r"\&'br", r"\efBbold\efP", r"\-x", r"\[u5E93]\[u5B58]", r"\&.x"):
        assert f"\n{line}\n" in page, line
    assert page.isascii()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert man.main([]) == 0
        assert man.main(["--check"]) == 2
    return folder / man.FOLDER


def test_they_are_written_where_man_looks(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {f"{name}.1" for name in PAGES} and folder.name == "man1"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_warns_of_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.1").write_text(".TH X 1\n.nosuch\n")
    for page in (*sorted(folder.iterdir()), tmp_path / "bad.1"):
        done = subprocess.run(
            ["groff", "-man", "-ww", "-z", "-Tutf8", page], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode == 0 and not done.stderr) == (page.name != "bad.1"), done.stderr


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man_shows_it(folder: Path) -> None:
    page = folder / "flintmq-verify.1"
    done = subprocess.run(
        ["man", "--warnings", "-l", page], capture_output=True, text=True, timeout=60,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MANPAGER": "cat", "TERM": "dumb"},
    )  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert re.search(r"NAME\n +flintmq-verify - Check everything in a store", re.sub(".\b", "", done.stdout))
