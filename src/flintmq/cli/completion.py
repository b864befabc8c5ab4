"""Completes command lines by the Tab key.

Offered are commands, options, their values, and topics of the store on the line; where there are none the shell
completes names of files. The script of a shell runs `flintmq` with the words up to the cursor, the last one unfinished,
and its own name in the variable COMPLETE.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from flintmq.cli.declare import parameters
from flintmq.cli.names import COMMANDS, members
from flintmq.cli.output import output
from flintmq.cli.parser import HELP, divided, load, named
from flintmq.errors import FlintError

COMPLETE = "_FLINTMQ_COMPLETE"
SCRIPTS = {
    "bash": f"""\
_flintmq_complete() {{
    local IFS=$'\\n'
    COMPREPLY=($({COMPLETE}=bash "${{COMP_WORDS[0]}}" "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2> /dev/null))
}}
complete -o default -F _flintmq_complete flintmq""",
    "zsh": f"""\
#compdef flintmq
_flintmq_complete() {{
    local -a found
    found=("${{(@f)$({COMPLETE}=zsh "${{words[1]}}" "${{(@)words[2,CURRENT]}}" 2> /dev/null)}}")
    if [[ -n "${{found[1]}}" ]]; then _describe -V flintmq found; else _files; fi
}}
compdef _flintmq_complete flintmq""",
    "fish": f"""\
function __flintmq_complete
    set -l found (env {COMPLETE}=fish (commandline -opc) (commandline -ct) 2> /dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c flintmq -f -a '(__flintmq_complete)'""",
}
"""Name of a shell -> the script for its start-up file."""
_SAFE = re.compile(r"[\w%.][\w%.-]*")
"""Topics that no shell takes for more than a word: names come from the store's files, which are hostile."""


def complete(words: Sequence[str]) -> int:
    """Print what may stand in the place of the last word, for the shell that COMPLETE names."""
    shell = os.environ[COMPLETE]
    form = {"bash": "{0}", "zsh": "{0}:{1}", "fish": "{0}\t{1}"}.get(shell)
    if form is not None:  # else a script of an earlier version asks
        if shell == "bash":  # which takes --to=delta apart
            words = ["" if word == "=" == words[-1] else word for word in words if word != "=" or word is words[-1]]
        try:
            found = list(candidates(words))
        except FlintError:  # the words before are wrong, or there is no such store
            found = []
        output(False).lines(form.format(word, help) for word, help in found)
    return 0


def candidates(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    *before, last = words or [""]
    name, rest, _ = named([*before, *HELP[:1]])
    for word, help in _offered(name, rest[:-1], last) if name in COMMANDS else members(name).items():
        if word.startswith(last):
            yield word, help


def _offered(name: str, rest: list[str], last: str) -> Iterator[tuple[str, str]]:
    """Yield what a command takes after the words `rest`; options if the last word begins as one."""
    found = parameters(load(name))
    option, equals, _ = last.partition("=")
    if equals and option.startswith("--"):
        rest = [*rest, option]
    wanted = next((one for one in found if rest[-1:] and rest[-1] in one.declared.names and one.kind is not bool), None)
    _, others = divided(name, rest[:-1] if wanted else rest, found)
    if wanted is None and last.startswith("-"):
        yield from ((shown, one.declared.help) for one in found for shown in one.declared.names)
        yield from ((shown, "Show this help and exit.") for shown in HELP)
        return
    places = [one for one in found if not one.declared.names]
    if wanted is None and places:
        wanted = places[min(len(others), len(places) - 1)]
    if wanted is not None:
        values = wanted.choices or (_topics(others[0]) if wanted.declared.topics and others else [])
        yield from ((f"{option}={value}" if equals else value, "") for value in values)


def _topics(store: str) -> list[str]:
    """Return the topics that have queues in a store; none if it is none, or elsewhere."""
    found: set[str] = set()
    for folder in ("consumequeue", "batchconsumequeue"):
        with suppress(OSError):
            found.update(os.listdir(os.path.join(os.path.expanduser(store), folder)))
    return sorted(filter(_SAFE.fullmatch, found))
