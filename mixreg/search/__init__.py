"""Starting points, and the race between them."""

from mixreg.search.tensor import TensorStart

__all__ = ["TensorStart"]
