"""``mx.fft``: not part of a decode runtime."""

from hiprt.metal_compat.mlx.absent import absent

NAMES = (
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "ifft", "ifft2", "ifftn", "ifftshift", "irfft", "irfft2", "irfftn",
    "rfft", "rfft2", "rfftfreq", "rfftn",
)  # fmt: skip
__all__ = [*NAMES]

globals().update({name: absent(f"fft.{name}") for name in NAMES})
