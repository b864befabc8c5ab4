"""Reads and writes buckets of clouds through obstore.

obstore, and not fsspec or pyarrow.fs, because it alone has put-if-absent for all of them, and it is one wheel.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import obstore.store
from obstore.exceptions import AlreadyExistsError, BaseError

from flintmq.config.s3 import S3Options
from flintmq.errors import StoreAccessError, UsageError
from flintmq.objects.aws_profile import profile, provider, region_of
from flintmq.objects.bucket import Bucket, ObjectEntry
from flintmq.overriding import override

CONNECT_SECONDS = 5
PART_BYTES = 16 << 20  # of a large upload
_METADATA = re.compile(r"/latest/(api/token|meta-data)|/computeMetadata/|/metadata/identity/")  # of a cloud's machine
_QUERY = re.compile(r"(https?://[^\s?]*)\?\S*")  # Azure's may be a key
_BEYOND_END = re.compile(r"Generic \w+ error: Wanted range starting at ")
ADVICE = {
    "s3": "check s3.endpoint, s3.region, the keys in the environment, and that the server answers",
    "gs": "check gs.endpoint, the credentials that GOOGLE_APPLICATION_CREDENTIALS names, and that the server answers",
    "abfs": "check azure.endpoint, the account's key or token in the environment (AZURE_STORAGE_ACCOUNT_KEY, "
    "AZURE_STORAGE_SAS_TOKEN), and that the server answers",
    "oss": "check oss.endpoint, OSS_ACCESS_KEY_ID and OSS_ACCESS_KEY_SECRET, and that the server answers",
}
"""Scheme -> what to do where a request fails."""

Answer = TypeVar("Answer")
_threads_of = 0  # the process in which obstore has its threads


def cloud_bucket(kind: str, name: str, options: S3Options) -> CloudBucket:
    url = f"{kind}://{name}"
    try:
        first = None
        if kind == "oss":
            first = _oss(name, options, {"x-oss-forbid-overwrite": "true"})
        elif kind == "s3" and options.endpoint:
            first = _s3(name, options)
        return CloudBucket(url, _CLIENTS[kind](name, options), ADVICE[kind], first=first)
    except UsageError:  # a ValueError too
        raise
    except (BaseError, ValueError) as error:
        raise StoreAccessError(_one_line(error), place=url, advice=ADVICE[kind]) from error


def _s3(name: str, options: S3Options) -> Any:
    known: dict[str, Any] = {}
    if options.endpoint:
        known["endpoint"] = options.endpoint
        known["region"] = options.region or "us-east-1"
    else:
        known["region"] = options.region or profile().get("region") or region_of(name, options.timeout_s)
    if options.anonymous:  # or half a pair of keys in the environment would be refused
        known |= {"access_key_id": "none", "secret_access_key": "none"}
    elif (credentials := provider()) is not None:
        known["credential_provider"] = credentials
    return obstore.store.S3Store(name, **known, skip_signature=options.anonymous, **_patience(options))


def _oss(name: str, options: S3Options, headers: dict[str, str] | None = None) -> Any:
    if not options.oss_endpoint:
        raise UsageError(
            f"oss://{name}: no endpoint is given; set oss.endpoint, such as https://s3.oss-cn-hangzhou.aliyuncs.com"
        )
    scheme, _, host = options.oss_endpoint.partition("://")
    return obstore.store.S3Store(
        name,
        endpoint=f"{scheme}://{name}.{host}",  # OSS takes no names of buckets in paths
        virtual_hosted_style_request=True,
        region=host.removeprefix("s3.").partition(".")[0],
        credential_provider=_oss_keys,  # or obstore would send Amazon's keys of the environment
        **_patience(options, headers),
    )


def _oss_keys() -> Any:
    environment = os.environ
    return {
        "access_key_id": environment.get("OSS_ACCESS_KEY_ID", ""),
        "secret_access_key": environment.get("OSS_ACCESS_KEY_SECRET", ""),
        "token": environment.get("OSS_SESSION_TOKEN"),
        "expires_at": None,
    }


def _gs(name: str, options: S3Options) -> Any:
    known: dict[str, Any] = {"base_url": options.gs_endpoint} if options.gs_endpoint else {}
    if options.gs_endpoint and (options.gs_anonymous or os.environ.get("STORAGE_EMULATOR_HOST")):
        known["credential_provider"] = _no_token  # for writes obstore wants one, and an emulator looks at none
    elif options.gs_anonymous:
        known["skip_signature"] = True
    return obstore.store.GCSStore(name, **known, **_patience(options))


def _no_token() -> Any:
    return {"token": "none", "expires_at": None}


def _azure(name: str, options: S3Options) -> Any:
    container, _, host = name.partition("@")
    account, _, rest = host.partition(".")
    endpoint = options.azure_endpoint or f"https://{account}.blob.{rest.partition('.')[2]}"
    return obstore.store.AzureStore(
        container,
        account_name=account,
        endpoint=endpoint,
        skip_signature=options.azure_anonymous,
        **_patience(options),
    )


def _patience(options: S3Options, headers: dict[str, str] | None = None) -> dict[str, Any]:
    """Return how long a client waits, how often it tries, and the headers that it always sends."""
    return {
        "client_options": {
            "allow_http": True,
            "default_headers": headers or {},
            "timeout": timedelta(seconds=options.timeout_s),
            "connect_timeout": timedelta(seconds=min(options.timeout_s, CONNECT_SECONDS)),
        },
        "retry_config": {
            "max_retries": options.attempts - 1,
            "retry_timeout": timedelta(seconds=options.timeout_s * options.attempts),
        },
    }


_CLIENTS = {"s3": _s3, "gs": _gs, "abfs": _azure, "oss": _oss}


class CloudBucket(Bucket):
    """A bucket behind a client of obstore; see Bucket.

    `first`: client for puts of new objects, of a server that was not seen to keep the first one; it is asked once.
    """

    def __init__(self, url: str, client: Any, advice: str = ADVICE["s3"], *, first: Any = None) -> None:
        self.url, self._client, self._advice = url, client, advice
        self._first, self._keeps_first = first or client, first is None

    @override
    def listed(self, folder: str, whole: bool) -> list[ObjectEntry]:
        try:
            if whole:
                chunks = self._ask(folder, lambda: list(self._client.list(folder or None)))
                return self._without_markers(folder, [_found(meta) for chunk in chunks for meta in chunk])
            answer = self._ask(folder, lambda: self._client.list_with_delimiter(folder or None))
        except (FileNotFoundError, StoreAccessError) as error:
            if isinstance(error, FileNotFoundError) or _answer(error.__cause__).startswith("404"):
                raise StoreAccessError(
                    "there is no such bucket", place=f"{self.url}/{folder}", advice=self._advice
                ) from error
            raise
        folders = [ObjectEntry(name, None) for name in answer["common_prefixes"]]
        return [*folders, *(_found(meta) for meta in answer["objects"] if meta["path"] != folder)]

    def _without_markers(self, folder: str, found: list[ObjectEntry]) -> list[ObjectEntry]:
        """Leave out empty objects `FOLDER/`, which consoles make: obstore gives their keys without the slash."""
        if all(one.size for one in found):
            return found
        folders = {one.key[:at] for one in found for at, letter in enumerate(one.key) if letter == "/"} | {folder}
        return [one for one in found if one.size or (one.key not in folders and self.find(one.key) is not None)]

    @override
    def find(self, key: str) -> ObjectEntry | None:
        try:
            return _found(self._ask(key, lambda: self._client.head(key)))
        except FileNotFoundError:
            return None

    @override
    def read(self, key: str, begin: int = 0, end: int | None = None) -> bytes:
        if end is not None and end <= begin:
            return b""
        try:
            if end is None and not begin:
                return bytes(self._ask(key, lambda: self._client.get(key).bytes()))
            span = {"end": end} if end is not None else {"length": 1 << 62}
            return bytes(self._ask(key, lambda: self._client.get_range(key, start=begin, **span)))
        except StoreAccessError as error:
            if _answer(error.__cause__).startswith("416") or _BEYOND_END.match(_without_details(error.__cause__)):
                return b""
            raise

    @override
    def put(self, key: str, data: bytes) -> None:
        self._ask(key, lambda: self._client.put(key, data, mode="overwrite", chunk_size=PART_BYTES))

    @override
    def put_file(self, key: str, path: str) -> None:
        os.stat(path)  # obstore's error would be taken for the server's
        self._ask(key, lambda: self._client.put(key, Path(path), mode="overwrite", chunk_size=PART_BYTES))

    @override
    def put_new(self, key: str, data: bytes) -> bool:
        if not self._keeps_first:
            self._try_out(key)
        return self._put_first(key, data)

    def _put_first(self, key: str, data: bytes) -> bool:
        try:
            self._ask(key, lambda: self._first.put(key, data, mode="create", use_multipart=False))
        except AlreadyExistsError:
            return False
        return True

    def _try_out(self, key: str) -> None:
        """Ask the server twice for an object of no use: one that ignores the condition would let two writers win."""
        above = key.rpartition("/")[0]
        probe = f"{above}/_flintmq-probe-{uuid.uuid4().hex}".lstrip("/")
        try:
            if not self._put_first(probe, b"1") or self._put_first(probe, b"2"):
                raise StoreAccessError(
                    "this server replaces an object where a put must not (If-None-Match), so of two writers both would "
                    "win",
                    place=f"{self.url}/{key}",
                    advice="write to another server",
                )
        finally:
            with suppress(StoreAccessError):
                self.delete([probe])
        self._keeps_first = True

    @override
    def copy(self, key: str, to: str) -> None:
        self._ask(key, lambda: self._client.copy(key, to, overwrite=True))

    @override
    def delete(self, keys: Iterable[str]) -> None:
        some = list(keys)
        try:
            if some:
                self._ask(some[0], lambda: self._client.delete(some))
        except FileNotFoundError:  # Azure and Google refuse to delete what is not there, and the others may remain
            for key in some:
                with suppress(FileNotFoundError):
                    self._ask(key, lambda key=key: self._client.delete(key))  # type: ignore[misc]

    def _ask(self, key: str, question: Callable[[], Answer]) -> Answer:
        """Ask the server, and turn its refusals into errors of one line."""
        global _threads_of
        _threads_of = _threads_of or os.getpid()
        if _threads_of != os.getpid():  # it would wait forever
            raise StoreAccessError(
                "this process was forked from one that had used object storage, and the client's threads did not come "
                "along",
                place=f"{self.url}/{key}",
                advice='start processes by multiprocessing.get_context("spawn")',
            )
        try:
            return question()
        except FileNotFoundError as error:
            raise FileNotFoundError(2, os.strerror(2), f"{self.url}/{key}") from error
        except AlreadyExistsError:
            raise
        except (BaseError, OSError, ValueError) as error:
            raise StoreAccessError(_one_line(error), place=f"{self.url}/{key}", advice=self._advice) from error


def _without_details(error: BaseException | None) -> str:
    """Return the text of a client's error in one line, without details for its developers."""
    return " ".join(str(error).partition("\n\nDebug source")[0].split())


def _answer(error: BaseException | None) -> str:
    """Return what the server answered, from its status on; "" if it is not known."""
    text = _without_details(error)
    return "" if _METADATA.search(text) else text.partition("Server returned non-2xx status code: ")[2]


def _one_line(error: Exception) -> str:
    """Return the text of a client's error without secrets in queries."""
    text, answer = _without_details(error), _answer(error)
    if _METADATA.search(text):
        return "no credentials were found, and this machine has no role that gives some"
    if answer:
        status = answer.partition(": ")[0]
        said = [found[1] for name in ("Code", "Message") if (found := re.search(f"<{name}>(.*?)</{name}>", answer))]
        text = f"HTTP status {': '.join([status, *said]) if said else answer}"
    return _QUERY.sub(r"\1", text)[:300]


def _found(meta: Any) -> ObjectEntry:
    written: datetime = meta["last_modified"]
    return ObjectEntry(meta["path"], meta["size"], int(written.timestamp() * 1000))
