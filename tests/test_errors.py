"""The tree of errors: as its docstring draws it, with the exit codes that scripts rely on."""

import inspect
import pickle
import re

import pytest

from flintmq import errors
from flintmq.config.text import short

CLASSES: dict[str, type[errors.FlintError]] = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, errors.FlintError) and value.__module__ == errors.__name__
}
# The contract with scripts: never change one, only add.
EXIT_CODES = {
    "FlintError": 3,
    "UsageError": 2,
    "ConfigError": 2,
    "UnknownTopicError": 7,
    "StoreError": 3,
    "NotAStoreError": 2,
    "UnsupportedFormatError": 4,
    "StoreAccessError": 5,
    "StoreLockedError": 6,
    "CorruptStoreError": 1,
    "LostLogError": 1,
    "MessageNotFoundError": 7,
    "FormatError": 1,
    "MissingExtraError": 8,
    "JavaNotFoundError": 9,
    "UnfinishedError": 11,
    "PutFailedError": 3,
    "PutUnknownError": 12,
    "ReplicationError": 12,
    "RemotingError": 12,
    "DivergedError": 12,
    "OffsetGoneError": 12,
    "DamagedStreamError": 12,
}


def test_exit_codes():
    assert {name: value.exit_code for name, value in CLASSES.items()} == EXIT_CODES


def test_the_drawing_shows_every_class_with_its_parents_and_code():
    path: list[str] = []
    drawn = {}
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ([│├└─ ]*)(\w+Error)(?: \((\w+)\))? +(\d+)?", line)
        if not found:
            continue
        bars, name, builtin, code = found.groups()
        path[len(bars) // 4 :] = [name]
        parents = {path[-2]} if len(path) > 1 else {"Exception"}
        drawn[name] = (parents | ({builtin} if builtin else set()), int(code) if code else EXIT_CODES[name])
    found_tree = {n: ({base.__name__ for base in value.__bases__}, value.exit_code) for n, value in CLASSES.items()}
    assert drawn == found_tree


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_class_says_what_it_is(name: str):
    assert CLASSES[name].__doc__


def test_corrupt_store_error_names_file_and_position():
    error = errors.CorruptStoreError("/s/commitlog/00", 4711, "body CRC is wrong", "run `flintmq verify`")
    assert str(error) == "/s/commitlog/00, position 4711: body CRC is wrong; run `flintmq verify`"
    assert (error.file, error.position, error.reason) == ("/s/commitlog/00", 4711, "body CRC is wrong")
    assert str(errors.CorruptStoreError("f", 0, "r")) == "f, position 0: r"


def test_the_text_is_made_of_parts_that_programs_can_take():
    error = errors.UsageError("no such topic", place="/s", advice="name another")
    assert str(error) == "/s: no such topic; name another" and error.args == (str(error),)
    assert (error.place, error.cause, error.advice) == ("/s", "no such topic", "name another")
    assert error.without_advice == "/s: no such topic"
    alone = errors.UsageError("no such topic")
    assert str(alone) == alone.without_advice == alone.cause and not alone.place and not alone.advice


@pytest.mark.parametrize(
    "error",
    [
        errors.CorruptStoreError("/s/commitlog/00", 4711, "body CRC is wrong", "do this"),
        errors.LostLogError("/s/commitlog/00", 4711, "the log's end is missing", "do this"),
        errors.DivergedError("diverged", "the master's log is another one"),
        errors.StoreAccessError("the server does not answer", place="s3://b/k", advice="check it"),
        errors.FormatError("size is negative", 12),
        errors.ConfigError("no such key: maxIndexNumm"),
        errors.MissingExtraError("pip install 'flintmq[arrow]'"),
    ],
)
def test_errors_cross_a_process_boundary_whole(error: errors.FlintError):
    """Spark pickles what a task raises."""
    other = pickle.loads(pickle.dumps(error))
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert {**vars(other)} == {**vars(error)}


def test_builtin_kinds():
    """Programs that know only Python's own errors catch ours too."""
    assert issubclass(errors.MessageNotFoundError, LookupError)
    assert issubclass(errors.ConfigError, ValueError)
    assert issubclass(errors.FormatError, ValueError)
    assert issubclass(errors.MissingExtraError, ImportError)


SECRET = "wJalrXUtn/FEMI+K7"


@pytest.mark.parametrize(
    "place",
    [
        f"s3://AKIAID:{SECRET}@bucket/store",
        f"http://user:{SECRET}@127.0.0.1:1/",
        f"https://:{SECRET}@host/path",
        f"abfs://c@account.dfs.core.windows.net/store?sv=2024&sig={SECRET}",
        f"https://host/x?X-Amz-Signature={SECRET}&X-Amz-Date=1",
        f"https://host/x?{'y' * 80}&AWSAccessKeyId=1&secret={SECRET}",
        f"http://{'u' * 100}:{SECRET}@host",
    ],
)
def test_no_error_repeats_a_secret(place: str):
    """Of any class, and where the text of the user is cut before it is shown."""
    for error in CLASSES.values():
        if "args" in inspect.signature(error).parameters:
            assert SECRET not in str(error("is not there", place=place, advice=place))
            assert SECRET not in str(error(f"{place}: is not there")) and "***" in str(error(f"{place} is"))
    assert SECRET[:6] not in short(place)
    assert SECRET not in str(errors.CorruptStoreError(place, 1, "why")) and SECRET not in str(errors.FormatError(place))


@pytest.mark.parametrize(
    "place",
    [
        "hdfs://name:9870/dir@x", "s3://bucket/a:b@c", "abfs://container@account.dfs.core.windows.net/store",
        "https://host:8080/a?page=2", "/data/a:b@c", "file:///tmp/a:b@c",
    ],
)  # fmt: skip
def test_other_places_are_shown_as_they_are(place: str):
    assert str(errors.UsageError(place)) == place and short(place) == repr(place)
