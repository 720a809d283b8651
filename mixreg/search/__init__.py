"""Starting points, and the search for the best end."""

from mixreg.search.tensor import TensorStart

__all__ = ["TensorStart"]
