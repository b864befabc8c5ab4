"""Scans print what they printed before their lines and their search became kernels; all of it: labs/same_output.py."""

from labs.same_output import EXPECTED, FEW, digest


def test_scans_print_what_they_printed() -> None:
    assert digest(FEW) == EXPECTED[FEW]
