"""What tests of the library take from other rooms."""

import sys
from pathlib import Path

import pytest

# The model that says what it is told (`playing`).
sys.path.append(str(Path(__file__).resolve().parents[1] / "runner"))


@pytest.fixture
def ws(make_workspace):
    """A workspace on disk with a home of its own."""
    return make_workspace({})
