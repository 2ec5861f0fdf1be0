"""Sizes and tolerances of the statistical tests."""

import pytest

S, E = 3, 211  # seeds, examples


def near(*expected, to=1e-4):
    return pytest.approx(list(expected), abs=to)
