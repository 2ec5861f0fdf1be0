"""A good call to be spoilt, and how an error is asked for."""

import re

import pytest
import torch

from ascender import Rules
from support.cases import A, B, D, E, H, K, N, Z


def tokens(**changes):
    """A good call, changed."""
    widths = {"q": D, "k": D, "v": E, "z_q": Z, "h_q": A}
    call = {name: torch.randn(B, H, N, width) for name, width in widths.items()}
    return {**call, "rules": Rules(k=K), **changes}


def rand(*shape, **options):
    return torch.randn(*shape, **options)


def refuses(error, *words):
    """All the words, in this order."""
    return pytest.raises(error, match="(?s)" + ".*".join(re.escape(word) for word in words))
