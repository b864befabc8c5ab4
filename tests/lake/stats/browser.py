"""Headless Chromium, if this machine has one (`make debian`): what a page looks like and holds once it is open."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 60


def find() -> str:
    """The browser's path; skips the test where there is none."""
    given = os.environ.get("FLINTMQ_BROWSER")
    found = given or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser here (looked for {', '.join(NAMES)} and FLINTMQ_BROWSER)")
    return found


def run(page: Path, profile: Path, *words: str) -> str:
    """Open a page; gives what the browser prints. It may not reach any network."""
    words = (
        "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--disable-quic", "--host-resolver-rules=MAP * ~NOTFOUND",
        "--hide-scrollbars", f"--user-data-dir={profile}", *words, page.as_uri(),
    )  # fmt: skip
    done = subprocess.run([find(), *words], capture_output=True, timeout=SECONDS, check=True, encoding="utf-8")
    return done.stdout


def dom(page: Path, profile: Path) -> str:
    """The document as it is after loading."""
    return run(page, profile, "--dump-dom")


def picture(page: Path, profile: Path, into: Path, width: int, height: int, dark: bool = False) -> bytes:
    """A PNG of the page."""
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    run(page, profile, *scheme, f"--window-size={width},{height}", f"--screenshot={into}")
    return into.read_bytes()
