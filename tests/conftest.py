"""Fixtures, and what the driver must know before it starts."""

import os
from pathlib import Path

import pytest

# On NVIDIA a stream that waits for a value holds up all streams of its connection, of which there are eight by default.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")


@pytest.fixture(scope="session")
def root():
    """The checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def only(request):
    """Skip tests that need what another provider than the one in use has."""
    marker = request.node.get_closest_marker("only")
    if marker is not None:
        from hiprt import library

        if library.current().provider.name != marker.args[0]:
            pytest.skip(f"only on {marker.args[0]}: {marker.kwargs['reason']}")


@pytest.fixture
def stream():
    """A stream of the device in use, closed afterwards."""
    import hiprt

    with hiprt.Stream() as made, hiprt.use_stream(made):
        yield made
