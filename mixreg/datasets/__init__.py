"""Small data sets for examples and tests, one function each."""

from mixreg.datasets._loaders import cheese, co2, npreg, sim_p1_k3, sim_p2_k2, tonedata

__all__ = ["cheese", "co2", "npreg", "sim_p1_k3", "sim_p2_k2", "tonedata"]
