"""Parses command lines with argparse, by the declarations of the commands, and runs them.

Only the module of the command that is named is loaded. Words reach argparse in a form that has one meaning: options
first, joined with their values, then the arguments; values and arguments begin with MARK. So a value may begin
with a dash (`--since -15m`), options may stand anywhere, and words after `--` are no options.
"""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from inspect import cleandoc
from typing import Any, NoReturn

from flintmq.cli.declare import REQUIRED, Parameter, call, parameters, value_of
from flintmq.cli.names import COMMANDS, GROUPS, NEEDS, members
from flintmq.cli.options import examples
from flintmq.cli.output import be_quiet, output
from flintmq.errors import MissingExtraError, UsageError

HELP, QUIET, VERSION = ("-h", "--help"), ("-q", "--quiet"), ("-V", "--version")
MARK = "="
"""Begins words for argparse that are no options: it drops a word `--`, and takes `-x` for an option."""
COLUMNS = 110
"""Columns of a help at most."""
GIVEN_UP = {
    ("verify", "--max-seconds"): "stop it with Ctrl-C or --to, and it prints the --from that continues",
    ("verify", "--resume"): "--from continues where a run that is stopped says that it ended",
}
"""(command, option) of an earlier version -> what to use instead."""


def run(words: Sequence[str]) -> int:
    name, rest, quiet = named(words)
    if name not in COMMANDS:
        output(False).lines(_group_help(name))
        return 0
    command = load(name)
    found = parameters(command)
    parser = parser_of(name, command)
    options, others = divided(name, rest, found)
    if not set(HELP).isdisjoint(options):
        output(False).lines(parser.format_help().replace("usage:", "Usage:", 1).splitlines())
        return 0
    given, extra = parser.parse_known_args([*options, *(MARK + word for word in others)])
    if extra:
        parser.error(f"there is no argument for {extra[0].removeprefix(MARK)!r}")
    values = dict(_values(found, vars(given)))
    if needed := NEEDS.get(name.partition(" ")[0]):
        need(*needed)
    with be_quiet(quiet or given.quiet):
        return call(command, values)


def named(words: Sequence[str]) -> tuple[str, list[str], bool]:
    """Return the name of a command, the words after it, and whether one before it is QUIET.

    It is the name of a group where help on that is wanted.
    """
    name, rest, quiet = "", list(words), False
    while name not in COMMANDS:
        word = rest.pop(0) if rest else HELP[0]
        if word in HELP:
            break
        if word in VERSION and not name:
            return "version", [], quiet
        if word in QUIET:
            quiet = True
        elif word in members(name):
            name = f"{name} {word}".lstrip()
        else:
            is_option = word.startswith("-")
            raise _unknown(name, word, (*HELP, *QUIET, *VERSION) if is_option else members(name), is_option)
    return name, rest, quiet


def _unknown(name: str, word: str, known: Iterable[str], is_option: bool = True) -> UsageError:
    if instead := GIVEN_UP.get((name, word)):
        return UsageError(f"{word} is gone: {instead}")
    from difflib import get_close_matches

    names = {one.lstrip("-"): one for one in known}
    hint = "".join(f"; did you mean '{names[close]}'" for close in get_close_matches(word.lstrip("-"), names, 1))
    return UsageError(f"no such {'option' if is_option else 'command'} {word!r}{hint}; see '{_called(name)} --help'")


def _called(name: str) -> str:
    return f"flintmq {name}".rstrip()


def load(name: str) -> Callable[..., int]:
    """Return the function of a command. Its module has its examples, EPILOG."""
    command: Callable[..., int] = import_module(f"flintmq.cli.{COMMANDS[name][0]}").command
    return command


def need(package: str, extra: str) -> None:
    if find_spec(package) is None:
        raise MissingExtraError(
            f"{package} is not installed, which this command needs; run: pip install 'flintmq[{extra}]'"
        )


def divided(name: str, words: Iterable[str], found: Sequence[Parameter]) -> tuple[list[str], list[str]]:
    """Divide the words of a command into options, each joined with its value, and others."""
    takes = {word: one.kind is not bool for one in found for word in (*one.declared.names, *one.declared.old)}
    takes |= dict.fromkeys((*HELP, *QUIET), False)
    options: list[str] = []
    others: list[str] = []
    rest = iter(words)
    for word in rest:
        long = word.startswith("--")
        option, equals, value = word.partition("=") if long else (word[:2], word[2:], word[2:])
        last = option if long or takes.get(option) else f"-{word[-1:]}"  # of several letters: -fn 5
        if word == "--":
            others += rest
        elif word == "-" or not word.startswith("-") or word[1:].isdecimal():  # a number: no option is one
            others.append(word)
        elif option not in takes:
            raise _unknown(name, option, (shown for one in found for shown in one.declared.names))
        elif takes.get(last):
            taken = value if equals and last == option else next(rest, None)
            if taken is None:
                raise UsageError(f"{last} needs a value; see '{_called(name)} --help'")
            options.append((f"{option}=" if last == option else word) + MARK + taken)
        else:
            options.append(word)
    return options, others


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see '{self.prog} --help'")


def parser_of(name: str, command: Callable[..., int]) -> _Parser:
    width = min(shutil.get_terminal_size().columns, COLUMNS)
    parser = _Parser(
        prog=_called(name),
        usage=synopsis(name, command),
        description="\n\n".join(textwrap.fill(part, width) for part in paragraphs(command)),
        epilog=import_module(command.__module__).EPILOG,
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, max_help_position=30, width=width),
        add_help=False,
        allow_abbrev=False,
    )
    arguments, options = parser.add_argument_group("Arguments"), parser.add_argument_group("Options")
    for one in parameters(command):
        declared, needed = one.declared, one.default is REQUIRED
        usual = f" Default: {one.usual}." if one.usual else ""
        more: dict[str, Any] = {"help": (declared.help + usual).replace("%", "%%")}
        if one.kind is bool:
            more["action"] = "store_true"
        else:
            more["metavar"] = declared.metavar
        if not declared.names:
            many = "+" if needed else "*"
            arguments.add_argument(one.name, nargs=many if one.several else None if needed else "?", **more)
            continue
        if one.kind is not bool:
            more |= {"action": "append", "required": needed}
        options.add_argument(*declared.names, *declared.old, dest=one.name, **more).option_strings = declared.names
    options.add_argument(*HELP, action="store_true", help="Show this help and exit.")
    options.add_argument(*QUIET, action="store_true", help=argparse.SUPPRESS)
    return parser


def synopsis(name: str, command: Callable[..., int]) -> str:
    words = [_called(name)]
    for one in parameters(command):
        if not one.declared.names:
            word = one.declared.metavar + "..." * one.several
            words.append(word if one.default is REQUIRED else f"[{word}]")
    return " ".join([*words, "[OPTIONS]"])


def paragraphs(command: Callable[..., int]) -> list[str]:
    return [" ".join(part.split()) for part in cleandoc(command.__doc__ or "").split("\n\n")]


def _values(found: Sequence[Parameter], given: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for one in found:
        words = given[one.name]
        if not words:
            continue
        if one.kind is bool:
            yield one.name, True
            continue
        words = words if isinstance(words, list) else [words]
        if len(words) > 1 and not one.several:
            raise UsageError(f"{one.declared.name} is given {len(words)} times, and has one value; give it once")
        values = [value_of(one, word.removeprefix(MARK)) for word in words]
        yield one.name, values if one.several else values[0]


def _group_help(name: str) -> Iterator[str]:
    about, *lines = GROUPS[name]
    width = min(shutil.get_terminal_size().columns, COLUMNS)
    yield f"Usage: {_called(name)} [OPTIONS] COMMAND [ARGS]..."
    for part in about.split("\n\n"):
        yield from ("", *textwrap.wrap(part, width))
    yield from ("", "Options:")
    if not name:
        yield "  -V, --version  Print the version and exit."
        yield "  -q, --quiet    No progress bars; also after the command's name."
    yield "  -h, --help     Show this help and exit."
    yield from ("", "Commands:", *(f"  {word:<12}{line}" for word, line in members(name).items()))
    yield from ("", *examples(*lines).splitlines())
