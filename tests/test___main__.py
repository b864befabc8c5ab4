import subprocess
import sys

import pytest

import flintmq
from flintmq.cli import app


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_tells_its_version(word: str) -> None:
    done = subprocess.run([sys.executable, "-m", "flintmq", word], capture_output=True, text=True, check=True)
    assert done.stdout == f"flintmq {flintmq.__version__}\n"
    assert app.run([word]) == 0  # the slow way knows the words too


def test_to_tell_the_version_loads_no_command_line() -> None:
    code = """if True:
        import sys
        import flintmq.__main__ as entry
        sys.argv = ["flintmq", "-V"]
        try:
            entry.main()
        finally:
            print(*sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"argparse", "flintmq.cli.app", "flintmq.config.keys"} & set(done.stdout.split())


def test_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "flintmq", "get"], capture_output=True, text=True)
    assert done.returncode == 2 and "are required: STORE" in done.stderr
