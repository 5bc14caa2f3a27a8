"""Fixtures only."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root():
    """The checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def stream():
    """A stream of the device in use, closed afterwards."""
    import hiprt

    with hiprt.Stream() as made, hiprt.use_stream(made):
        yield made
