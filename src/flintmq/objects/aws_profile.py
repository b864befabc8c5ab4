"""Finds credentials and regions of Amazon where its own tools do, and obstore does not look.

obstore reads the environment, web identity tokens, and the role of a container or machine. This adds the profiles of
`~/.aws`, as boto3 understands them (keys, roles, SSO, processes), and the region of a bucket, which Amazon tells
whoever asks.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import quote

from flintmq.errors import MissingExtraError, StoreAccessError

AMAZON = "https://s3.amazonaws.com"
FRESH = timedelta(minutes=5)  # after which keys in a file are read again: a tool may have renewed them
Answer = TypeVar("Answer")
_BEFORE_FILES = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE")
_GIVES_KEYS = ("aws_access_key_id", "role_arn", "credential_process", "sso_session", "sso_start_url")


def profile() -> dict[str, Any]:
    """Return the settings of the profile that AWS_PROFILE names, else of `default`.

    Empty if there is none, or no boto3 to read it.
    """
    try:
        from botocore.session import Session
    except ImportError:
        return {}
    return _told(lambda: Session().get_scoped_config(), "check AWS_PROFILE and the files in ~/.aws")


def provider() -> Callable[[], Any] | None:
    """Return what gives obstore credentials of the profile; None: it finds others by itself."""
    if any(os.environ.get(name) for name in _BEFORE_FILES):
        return None
    try:
        from botocore.credentials import RefreshableCredentials
        from botocore.session import Session
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        named = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
        if named or os.path.exists(_file("AWS_SHARED_CREDENTIALS_FILE", "credentials")) or _config_gives_keys():
            raise MissingExtraError(
                "a profile of ~/.aws is followed by boto3; `pip install 'flintmq[aws]'` brings it"
            ) from error
        return None
    if not any(name in profile() for name in _GIVES_KEYS):
        return None  # boto3 would ask for a role of the machine, as obstore does

    def fresh() -> Boto3CredentialProvider:
        return _told(lambda: Boto3CredentialProvider(Session(), ttl=FRESH), "log in with this profile of ~/.aws again")

    made = fresh()
    # boto3 renews what a role or SSO gave, and keeps keys that it read in a file.
    return made if isinstance(made.credentials, RefreshableCredentials) else lambda: fresh()()


def _file(variable: str, usual: str) -> str:
    return os.path.expanduser(os.environ.get(variable) or f"~/.aws/{usual}")


def _config_gives_keys() -> bool:
    """Return whether the default profile of `~/.aws/config` gives keys; a region alone is nothing to follow."""
    try:
        with open(_file("AWS_CONFIG_FILE", "config"), "rb") as file:
            text = file.read(1 << 20)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreAccessError(f"{error.filename}: {error.strerror}; check the files in ~/.aws") from error
    default = text.partition(b"default]")[2].partition(b"\n[")[0]
    return any(name.encode() in default for name in _GIVES_KEYS)


def _told(question: Callable[[], Answer], advice: str) -> Answer:
    """Ask boto3, and turn its errors, of which it has many, into one."""
    try:
        return question()
    except Exception as error:
        raise StoreAccessError(f"boto3: {' '.join(str(error).split())[:300]}; {advice}") from error


def region_of(bucket: str, timeout_s: float, server: str = AMAZON) -> str:
    """Ask Amazon for the region of a bucket; it answers whoever asks."""
    request = urllib.request.Request(f"{server}/{quote(bucket)}", method="HEAD")
    text = "it did not tell the region"
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=timeout_s) as answer:
            headers = answer.headers
    except urllib.error.HTTPError as error:
        headers = error.headers
        text = "there is no such bucket" if error.code == 404 else f"HTTP status {error.code}"
    except OSError as error:
        headers, text = {}, " ".join(str(error).split())[:200]
    region: str | None = headers.get("x-amz-bucket-region")
    if not region:
        raise StoreAccessError(f"s3://{bucket}: {server} was asked for its region: {text}; give s3.region")
    return region


class _Stay(urllib.request.HTTPRedirectHandler):
    """A redirect to the bucket's region names it already."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none."""
