"""Inputs and measured limits of one small model; a browser."""

import pytest

from ascender.hf.tokens import bytes_tokenizer
from ascender.insight.limits import measure
from ascender.insight.limits.inputs import default_text, text_inputs
from support.limits_cases import LENGTHS, make_model


@pytest.fixture(scope="module")
def inputs():
    return text_inputs(bytes_tokenizer(), default_text(), LENGTHS, batch=2)


@pytest.fixture(scope="module")
def found(inputs):
    return measure(make_model(), inputs, name="ours")


@pytest.fixture(scope="module")
def browser():
    from support.browser import CHROMIUM, sync_api

    with sync_api.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()
