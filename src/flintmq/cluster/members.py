"""Resolves what a user gives as STORE: one store, a list of stores, a pattern, or a manifest."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flintmq.cluster.manifest import is_manifest, read_manifest
from flintmq.cluster.member import ONLY, Member
from flintmq.cluster.pattern import is_pattern, matches
from flintmq.cluster.same_log import one_of_each
from flintmq.config.keys import StoreConfig
from flintmq.config.text import short
from flintmq.errors import NotAStoreError, UsageError
from flintmq.storage.files.filesystem import Effects
from flintmq.storage.files.store_url import absolute, effects_for, is_remote, path_text
from flintmq.store.commitlog.pushdown import Comparison
from flintmq.store.commitlog.report import LOST, Report
from flintmq.store.layout.directories import LOG

Stores = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A store's directory or URL, a pattern of them, a manifest's file (`*.toml`), or a list of these."""

NO_STORE = "no-store"
"""Code of the note on what a pattern matches and where there is no store."""

SAME_STORE = "same-store"
"""Code of the note that a store was named twice, as by a link."""

_ONE = (str, bytes, os.PathLike)
"""One path, not a list: bytes are refused as such, and not read as a list of numbers."""


@dataclass(frozen=True, slots=True)
class _Named:
    members: list[Member]
    sure: bool  # the user named each; a pattern did not find them
    manifest: str | None = None


@dataclass(frozen=True, slots=True)
class NamedStores:
    """The stores that a user named, before one of a master and its slaves is chosen."""

    found: list[Member]
    gone: list[Member]
    others: list[Member]  # directories that a pattern matches and that are no stores

    @property
    def missing(self) -> list[Member]:
        return [*self.gone, *self.others]


def find_members(
    given: Stores,
    config: StoreConfig | None = None,
    *,
    strict: bool = True,
    slaves: bool = False,
    report: Report | None = None,
) -> tuple[Member, ...]:
    """Find the stores that a list, a pattern or a manifest names, or a single path: an only one.

    There is one at least; they are ordered by broker name, each of which occurs once (but see `slaves`). An only store
    has its path as given, and is not looked for. Of a master and its slaves, which have one broker name, the store
    counts whose log goes further. A directory that a pattern matches and that is no store is left out, and noted: an
    unmounted disk looks like that. So is a directory that another name, such as a link, has named before: its rows
    would come twice.

    Args:
        strict: a store of a list or a manifest that is not there is an error; otherwise it is noted, as lost messages
            are, and left out.
        slaves: keep all stores of a broker, for those who look at each by itself; a name may occur several times then.
    """
    config, report = config or StoreConfig(), report if report is not None else Report()
    if isinstance(given, _ONE) and not names_many(given, config):
        return (Member(path_text(given), ONLY),)
    listing = list_members(given, config, report)
    if listing.gone and strict:
        raise NotAStoreError(not_there(listing.gone[0]))
    # What a list or a manifest names has messages, which are left out; what only matches a pattern may never have had.
    for code, missing in ((LOST, listing.gone), (NO_STORE, listing.others)):
        if missing:
            more = f" and {len(missing) - 1} more like it" if missing[1:] else ""
            report.note(code, f"{not_there(missing[0])}; left out{more}")
    if not listing.found:
        raise nothing_found(given, listing)
    if slaves:
        return tuple(sorted(listing.found, key=lambda one: one.broker))
    return one_of_each(listing.found, config, report)


def list_members(given: Stores, config: StoreConfig, report: Report | None = None) -> NamedStores:
    """List the stores that a user's text or list names, a single path too, and those that are missing."""
    texts = [given] if isinstance(given, _ONE) else given
    found: list[Member] = []
    listing = NamedStores(found, [], [])
    entries: dict[str, tuple[Member, str]] = {}
    for text in texts:
        named = _named(text, config)
        if named.manifest is not None:
            _check_entries(named.members, named.manifest, entries)
        for member in named.members:
            missing = listing.gone if named.sure else listing.others
            (found if _is_store(member.path, config) else missing).append(member)
    found = _without_repeats(found, report if report is not None else Report())
    return NamedStores(found, *(_without_repeats(members, Report()) for members in (listing.gone, listing.others)))


def nothing_found(given: Stores, listing: NamedStores) -> NotAStoreError:
    if listing.missing:
        return NotAStoreError(not_there(listing.missing[0]))
    empty = not isinstance(given, _ONE) and not given
    return NotAStoreError("the list of stores is empty; name one" if empty else f"{text_of(given)}: no store there")


def names_many(given: Stores, config: StoreConfig | None = None) -> bool:
    """Return whether this names several stores, perhaps one of them alone; no store is looked for."""
    if not isinstance(given, _ONE):
        return True
    text = path_text(given)
    if is_manifest(text):
        return True
    return is_pattern(text) and not _effects(text, config or StoreConfig()).is_dir(absolute(text))


def _named(given: str | os.PathLike[str], config: StoreConfig) -> _Named:
    text = path_text(given)
    if names_many(given, config):
        if is_manifest(text):
            return _Named(read_manifest(text), sure=True, manifest=text)
        return _Named(matches(absolute(text), _effects(text, config)), sure=False)
    path = absolute(text)
    return _Named([Member(path, os.path.basename(path.rstrip("/")) or path)], sure=True)


def _check_entries(members: Sequence[Member], manifest: str, known: dict[str, tuple[Member, str]]) -> None:
    """Refuse two entries of manifests that give one directory to two brokers; `known` gets the new entries.

    Only one of the two brokers could be read, and nobody can tell which one the user misses.
    """
    for member in members:
        first, where = known.setdefault(_real(member.path), (member, manifest))
        if (first.broker, first.cluster) == (member.broker, member.cluster):
            continue
        one, other = (
            f"broker {short(entry.broker)}" + (f" of cluster {short(entry.cluster)}" if entry.cluster else "")
            for entry in (first, member)
        )
        there = f", in {where}," if where != manifest else ""
        raise UsageError(
            f"{manifest}: {member.path} is the store of {one}{there} and of {other}; correct or remove one of the two "
            "entries"
        )


def _without_repeats(members: Sequence[Member], report: Report) -> list[Member]:
    """Return each store once, however often and by whatever path it was named; note what is named again."""
    kept: dict[str, Member] = {}
    for member in sorted(members, key=lambda one: one.path != _real(one.path)):  # a directory before links to it
        first = kept.setdefault(_real(member.path), member)
        if first is not member:
            what = "named more than once" if first.path == member.path else f"another name of {first.path}"
            report.note(SAME_STORE, f"{member.path}: {what}; read once")
    return list(kept.values())


def _real(path: str) -> str:
    """Return a path without links; a URL as it is."""
    return path if is_remote(path) else os.path.realpath(path)


def _is_store(path: str, config: StoreConfig) -> bool:
    effects = _effects(path, config)
    return effects.is_dir(path) and (
        effects.is_dir(os.path.join(path, LOG)) or bool(config.store_path_commit_log.strip())
    )


def not_there(member: Member) -> str:
    """Return the sentence about a store that is not where it was named."""
    return f"{member.path}: no commitlog/ there, of broker {short(member.broker)}; is its disk mounted?"


def _effects(path: str, config: StoreConfig) -> Effects:
    return effects_for(path, config.s3)


def text_of(given: Stores) -> str:
    if isinstance(given, _ONE):
        return os.fspath(given)
    return ", ".join(os.fspath(text) for text in given[:3]) + (f" and {len(given) - 3} more" if given[3:] else "")


def only_named(members: Sequence[Member], limits: Iterable[Comparison]) -> tuple[Member, ...]:
    """Return the members whose rows can pass comparisons of the columns broker and store that must all hold."""
    sets = [(column, value) for column, operator, value in limits if operator == "in"]
    brokers = [value for column, value in sets if column == "broker"]
    paths = [value for column, value in sets if column == "store"]
    return tuple(
        member
        for member in members
        if all(member.broker in value for value in brokers) and all(member.path in value for value in paths)
    )
