"""Fixtures of the training tests."""

import pytest


@pytest.fixture
def few_examples(monkeypatch):
    monkeypatch.setattr("ascender.tasks.distinct.Distinct.examples", 13)
