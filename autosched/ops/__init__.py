"""Operators of torch that serve from a log, and compute as torch does where it holds nothing."""

from autosched.ops.operators import ACTIVATIONS, conv1d, conv2d, conv3d, linear, matmul
from autosched.ops.serving import register, release, use

__all__ = [
    "ACTIVATIONS",
    "conv1d",
    "conv2d",
    "conv3d",
    "linear",
    "matmul",
    "register",
    "release",
    "use",
]
