"""Starting points, and the race between them."""

from mixreg.starts.tensor import TensorStart

__all__ = ["TensorStart"]
