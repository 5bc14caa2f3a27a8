"""Kernels: the ops of decode steps, and `Kernel` to write more of them.

Every op takes and returns `hiprt.Array`, launches on this thread's stream (or ``stream=``), declares what it reads and
writes, and computes floating dtypes in float32. ``out=`` gives it an array to write to. Ops that MLX has carry its
names, and promote dtypes and broadcast shapes as it does.
"""

# The pool that results come from registers itself.
import hiprt.allocator  # noqa: F401
from hiprt.kernels.lang.hip_kernel import HipKernel, hip_kernel, hip_kernels
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.ops import (
    attention as _attention,
    elementwise as _elementwise,
    experts as _experts,
    indexing as _indexing,
    matmul as _matmul,
    norm as _norm,
    paged_cache as _paged_cache,
    quantized as _quantized,
    quantized_cache as _quantized_cache,
    random as _random,
    recurrent as _recurrent,
    reduction as _reduction,
    sampling as _sampling,
)
from hiprt.kernels.ops.attention import *  # noqa: F403
from hiprt.kernels.ops.broadcasting import broadcast_to
from hiprt.kernels.ops.elementwise import *  # noqa: F403
from hiprt.kernels.ops.experts import *  # noqa: F403
from hiprt.kernels.ops.indexing import *  # noqa: F403
from hiprt.kernels.ops.matmul import *  # noqa: F403
from hiprt.kernels.ops.norm import *  # noqa: F403
from hiprt.kernels.ops.paged_cache import *  # noqa: F403
from hiprt.kernels.ops.quantized import *  # noqa: F403
from hiprt.kernels.ops.quantized_cache import *  # noqa: F403
from hiprt.kernels.ops.random import *  # noqa: F403
from hiprt.kernels.ops.recurrent import *  # noqa: F403
from hiprt.kernels.ops.reduction import *  # noqa: F403
from hiprt.kernels.ops.sampling import *  # noqa: F403
from hiprt.kernels.tuning.choices import timed_choices

__all__ = ["HipKernel", "Kernel", "broadcast_to", "hip_kernel", "hip_kernels", "timed_choices"]
__all__ += _attention.__all__
__all__ += _elementwise.__all__
__all__ += _experts.__all__
__all__ += _indexing.__all__
__all__ += _matmul.__all__
__all__ += _norm.__all__
__all__ += _paged_cache.__all__
__all__ += _quantized.__all__
__all__ += _quantized_cache.__all__
__all__ += _random.__all__
__all__ += _recurrent.__all__
__all__ += _reduction.__all__
__all__ += _sampling.__all__
