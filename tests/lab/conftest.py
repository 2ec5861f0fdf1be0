"""Fixtures of the lab tests."""

import pytest

from support.tiny_suite import TINY


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.py"
    path.write_text(TINY.replace("STEPS", "6").replace("MORE", "{}"))
    return path
