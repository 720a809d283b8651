"""Where rows live, and the one sweep over them."""

from mixreg.sources.base import Source, sweep
from mixreg.sources.memory import MemorySource

__all__ = ["MemorySource", "Source", "sweep"]
