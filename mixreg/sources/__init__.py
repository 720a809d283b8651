"""Where rows live, and the one sweep over them."""

from mixreg.sources.base import AtHand, OneBlock, Source, Swept, Told, per_unit, sweep, unit_weights
from mixreg.sources.memory import MemorySource, in_memory, wide_block
from mixreg.sources.one_block import of_block

__all__ = [
    "AtHand",
    "MemorySource",
    "OneBlock",
    "Source",
    "Swept",
    "Told",
    "in_memory",
    "of_block",
    "per_unit",
    "sweep",
    "unit_weights",
    "wide_block",
]
