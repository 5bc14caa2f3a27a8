"""``mlx.core`` on hiprt: arrays that are computed when they are asked for, each evaluation as one graph.

``import hiprt.metal_compat.mlx as mx`` gives the names of ``mlx.core``. An op is a function of `array` that calls ops
of hiprt through `apply`, which adds primitives to the lazy graph (`hiprt.graphs.trace.lazy`) and runs nothing::

  def rms_norm(x: array, weight: array | None, eps: float, *, stream: Any = None) -> array:
    return apply(kernels.rms_norm, x, weight, eps)

It stands in the file of its kind, in that file's ``__all__``, and is a method of `array` if `methods` names it. A
kernel that it needs is an op of `hiprt.kernels`. ``stream`` is taken as MLX's ops take it; there is one device.
"""

from hiprt.metal_compat.mlx import (
    cuda as cuda,
    distributed as distributed,
    fast as fast,
    fft as fft,
    linalg as linalg,
    metal as metal,
    methods as methods,
    random as random,
)
from hiprt.metal_compat.mlx.absent import *  # noqa: F403
from hiprt.metal_compat.mlx.array import *  # noqa: F403
from hiprt.metal_compat.mlx.compiled import *  # noqa: F403
from hiprt.metal_compat.mlx.convolutions import *  # noqa: F403
from hiprt.metal_compat.mlx.creation import *  # noqa: F403
from hiprt.metal_compat.mlx.diagonals import *  # noqa: F403
from hiprt.metal_compat.mlx.drawing import *  # noqa: F403
from hiprt.metal_compat.mlx.dtypes import *  # noqa: F403
from hiprt.metal_compat.mlx.elementwise import *  # noqa: F403
from hiprt.metal_compat.mlx.evaluation import *  # noqa: F403
from hiprt.metal_compat.mlx.export import *  # noqa: F403
from hiprt.metal_compat.mlx.files import *  # noqa: F403
from hiprt.metal_compat.mlx.fp8 import *  # noqa: F403
from hiprt.metal_compat.mlx.joins import *  # noqa: F403
from hiprt.metal_compat.mlx.memory import *  # noqa: F403
from hiprt.metal_compat.mlx.printing import printoptions as printoptions, set_printoptions as set_printoptions
from hiprt.metal_compat.mlx.products import *  # noqa: F403
from hiprt.metal_compat.mlx.quantized import *  # noqa: F403
from hiprt.metal_compat.mlx.reductions import *  # noqa: F403
from hiprt.metal_compat.mlx.shapes import *  # noqa: F403
from hiprt.metal_compat.mlx.sorting import *  # noqa: F403
from hiprt.metal_compat.mlx.streams import *  # noqa: F403
from hiprt.metal_compat.mlx.transforms import *  # noqa: F403

# The MLX whose names and meanings these are.
__version__ = "0.32.4"
