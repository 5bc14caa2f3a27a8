"""The references of all ops by name, as their families' ``reference.py`` have them.

They take host arrays of the same shapes as the ops do. Results are exact to float64, before any rounding to the op's
dtype; only where an op's result is defined bit by bit is it rounded as the op rounds it.
"""

from hiprt.kernels.ops.attention.reference import *  # noqa: F403
from hiprt.kernels.ops.elementwise.reference import *  # noqa: F403
from hiprt.kernels.ops.experts.reference import *  # noqa: F403
from hiprt.kernels.ops.matmul.reference import *  # noqa: F403
from hiprt.kernels.ops.norm.reference import *  # noqa: F403
from hiprt.kernels.ops.paged_cache.reference import *  # noqa: F403
from hiprt.kernels.ops.quantized.reference import *  # noqa: F403
from hiprt.kernels.ops.quantized_cache.reference import *  # noqa: F403
from hiprt.kernels.ops.random.reference import *  # noqa: F403
from hiprt.kernels.ops.recurrent.reference import *  # noqa: F403
from hiprt.kernels.ops.reduction.reference import *  # noqa: F403
from hiprt.kernels.ops.sampling.reference import *  # noqa: F403
from hiprt.kernels.reference.float64 import double as double
