"""The smoke test of an installation: it passes on this one, and tells what is wrong with others."""

import pytest

from flintmq import kernels
from flintmq.testing import smoke


def test_this_installation_works(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(smoke, "installed", lambda name: None)  # developers have Cython; `.ci/dist` asks elsewhere
    kind = "compiled" if kernels.compiled() else "pure"
    assert smoke.main([kind]) == 0
    assert capsys.readouterr().out.startswith("flintmq ")


def test_kernels_of_the_other_kind_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(smoke, "state", lambda: {"walk": True, "units": False})
    for kind, expected in (("compiled", "['walk', 'units']"), ("pure", "[]")):
        assert smoke.main([kind]) == 1
        assert capsys.readouterr().err == f"flintmq.testing.smoke: compiled kernels: ['walk'] instead of {expected}\n"


def test_a_part_that_is_broken_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    answer = '{"checks":[{"name":"crc32","state":"broken"},{"name":"java","state":"missing"}]}'
    monkeypatch.setattr(smoke, "_command", lambda *words: answer)
    assert smoke.main(["compiled" if kernels.compiled() else "pure"]) == 1
    assert "broken parts: ['crc32'] instead of []" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["both"], ["pure", "compiled"]])
def test_wrong_use(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert smoke.main(words) == 2
    assert capsys.readouterr().err.startswith("usage: ")
