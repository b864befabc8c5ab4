"""Headless Chromium, if this machine has one (`make debian`): what a page looks like and holds once it is open."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 60
WORDS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic",
]  # fmt: skip


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
        "--headless", *WORDS, "--host-resolver-rules=MAP * ~NOTFOUND", "--hide-scrollbars",
        f"--user-data-dir={profile}", *words, page.as_uri(),
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


@contextmanager
def launched() -> Iterator[Any]:
    """The browser, driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = find()
    with playwright.sync_playwright() as made:
        browser = made.chromium.launch(executable_path=path, args=WORDS)
        yield browser
        browser.close()


# Why axe cannot tell the ground of a text: it is scrolled out of a box, which a wide window shows whole; it is in a
# drawing; or, then too, it is one letter.
GROUND_UNKNOWN = {"elmPartiallyObscured", "imgNode", "shortTextContent"}


def axe(page: Any) -> list[str]:
    """What axe finds wrong in a page of Playwright, by all rules that it has on; what it cannot decide counts as wrong.

    Playwright's `evaluate` is outside of the page's policy against scripts.
    """
    pytest.importorskip("axe_playwright_python", reason="axe_playwright_python is not installed")
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    # A ground that fades at a table's edge is one that axe cannot tell.
    page.evaluate("document.querySelectorAll('.wide').forEach((one) => { one.style.backgroundImage = 'none'; })")
    found = page.evaluate("axe.run({preload: false, resultTypes: ['violations', 'incomplete']})")
    assert len(found["passes"]) > 5, "axe looked at nothing"
    return [
        f"{rule['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for rule in found["violations"] + found["incomplete"]
        for node in rule["nodes"]
        if not any((check["data"] or {}).get("messageKey") in GROUND_UNKNOWN for check in node["any"])
    ]
