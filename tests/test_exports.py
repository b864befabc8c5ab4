"""The public names of `flintmq`: those of the list, each one there, nothing public beside them."""

from __future__ import annotations

import subprocess
import sys
import types

import flintmq


def test_each_name_is_there():
    assert flintmq.__all__ == sorted(set(flintmq.__all__)), "sorted, without doubles"
    assert [name for name in flintmq.__all__ if not hasattr(flintmq, name)] == []


def test_nothing_public_beside_the_list():
    """Nothing of FlintMQ's own; what the file imports to work with (typing's names) is nobody's business."""
    found = {
        name
        for name, value in vars(flintmq).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and getattr(value, "__module__", "").startswith("flintmq")
    }
    assert found - set(flintmq.__all__) == set()


def test_the_names_that_the_documentation_promises():
    promised = {
        "open_store",
        "scan_arrow",
        "StoreConfig",
        "StoredMessage",
        "FlintError",
        "CorruptStoreError",
        "__version__",
    }
    assert promised - set(flintmq.__all__) == set()


def test_dir_and_unknown_names():
    assert set(flintmq.__all__) <= set(dir(flintmq))
    assert not hasattr(flintmq, "no_such_name")


def test_the_version_is_the_installed_one():
    from importlib.metadata import version

    assert flintmq.__version__ == version("flintmq")


def test_a_lazy_name_brings_its_module_only_when_asked():
    code = (
        "import sys, flintmq; assert 'pyarrow' not in sys.modules; flintmq.scan_arrow; assert 'pyarrow' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
