"""Into probabilistic programming: draws, ArviZ data, PyMC models."""
