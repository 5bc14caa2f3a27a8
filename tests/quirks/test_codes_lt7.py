"""Before HIP 7.0 launches that are too large are invalid values, and the null stream has no flags."""

from helpers.child import child
from helpers.rtc import Program
from quirks.decode import decode_on_driver, expected
from rocm.bindings import hip

QUIRK = "codes_lt7"
NOTHING = 'extern "C" __global__ void nothing() {}'


def codes():
    """Launch with sizes that are none, too many, too many in all, and more than a grid has; ask for flags."""
    function = Program(NOTHING).function("nothing")
    launch = lambda grid, block: hip.hipModuleLaunchKernel(function, *grid, *block, 0, None, None, None)  # noqa: E731
    one = (1, 1, 1)
    tried = [launch(one, (1, 0, 1)), launch(one, (2048, 1, 1)), launch(one, (32, 32, 2)), launch((1, 1 << 17, 1), one)]
    return [status.name for status, *_ in [*tried, hip.hipStreamGetFlags(None)]]


def test_codes():
    assert child(codes, quirks=QUIRK) == ["hipErrorInvalidValue"] * 5
    assert child(codes) == ["hipErrorInvalidConfiguration"] * 4 + ["hipSuccess"]


def test_steps():
    assert child(decode_on_driver, quirks=QUIRK) == expected()
