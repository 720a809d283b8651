"""Small data sets for examples and tests, one function each."""

from mixreg.datasets._loaders import (
    camera,
    cheese,
    co2,
    fabricfault,
    nmes1988,
    npreg,
    sim_p1_k3,
    sim_p2_k2,
    tonedata,
)

__all__ = [
    "camera",
    "cheese",
    "co2",
    "fabricfault",
    "nmes1988",
    "npreg",
    "sim_p1_k3",
    "sim_p2_k2",
    "tonedata",
]
