"""Finds credentials and regions of Amazon where its own tools do, and obstore does not look.

obstore reads the environment, web identity tokens, and the role of a container or machine. This adds `~/.aws`: keys
that stand in a profile are read here; a profile that needs more (a role, SSO, a process) is left to boto3. And it adds
the region of a bucket, which Amazon tells whoever asks.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from configparser import ConfigParser, Error
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from flintmq.errors import MissingExtraError, StoreAccessError

AMAZON = "https://s3.amazonaws.com"
FRESH = timedelta(minutes=5)  # after which keys in a file are read again: a tool may have renewed them
_BEFORE_FILES = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE")
_MORE = ("role_arn", "credential_process", "sso_session", "sso_start_url", "web_identity_token_file")


def profile(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the settings of the profile that AWS_PROFILE names, else of `default`; empty if there is none.

    Raises:
        StoreAccessError: a file cannot be read, or AWS_PROFILE names a profile that is not there.
    """
    name = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE") or ""
    found: dict[str, str] = {}
    there = False
    for variable, usual, section in (
        ("AWS_CONFIG_FILE", "~/.aws/config", f"profile {name}" if name and name != "default" else "default"),
        ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", name or "default"),
    ):
        path = os.path.expanduser(environment.get(variable) or usual)
        parser = ConfigParser(interpolation=None, strict=False, default_section="\0")
        try:
            parser.read(path, encoding="utf-8")
        except (Error, OSError, UnicodeError) as error:
            text = type(error).__name__  # its text may show a line of the file, and so a secret
            raise StoreAccessError(
                f"{path}: {text}; it must be a file of sections and keys, as AWS writes it"
            ) from None
        if parser.has_section(section):
            there = True
            found.update(parser[section])
    if name and not there:
        raise StoreAccessError(f"AWS_PROFILE={name}: no such profile in ~/.aws; check its name")
    return found


def provider(environment: Mapping[str, str] = os.environ) -> Callable[[], Any] | None:
    """Return what gives obstore credentials of the profile; None: it finds others by itself.

    Raises:
        StoreAccessError: as profile.
        MissingExtraError: the profile needs boto3, which is not installed.
    """
    if any(environment.get(name) for name in _BEFORE_FILES):
        return None
    found = profile(environment)
    if "aws_access_key_id" in found:
        return ProfileKeys(dict(environment))
    if not any(name in found for name in _MORE):
        return None
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise MissingExtraError(
            "this profile of ~/.aws has no keys but a role, SSO or a process; `pip install boto3` follows it"
        ) from error
    try:
        return Boto3CredentialProvider()
    except Exception as error:  # boto3 has many
        text = " ".join(str(error).split())[:300]
        raise StoreAccessError(f"the profile in ~/.aws gives no credentials: {text}; log in with it again") from error


class ProfileKeys:
    """Gives the keys that stand in a profile, as long as they are fresh.

    Args:
        environment: names the files and the profile.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def __call__(self) -> dict[str, Any]:
        """Read the keys."""
        found = profile(self._environment)
        return {
            "access_key_id": found.get("aws_access_key_id", ""),
            "secret_access_key": found.get("aws_secret_access_key", ""),
            "token": found.get("aws_session_token"),
            "expires_at": datetime.now(UTC) + FRESH,
        }


def region_of(bucket: str, timeout_s: float, server: str = AMAZON) -> str:
    """Ask Amazon for the region of a bucket; it answers whoever asks.

    Raises:
        StoreAccessError: it does not answer, or knows no such bucket.
    """
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
