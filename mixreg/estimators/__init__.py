"""The loop, and the algorithms that run on it."""

from mixreg.estimators.altmin import AltMin
from mixreg.estimators.em import EM
from mixreg.estimators.loop import Control, Run, iterate
from mixreg.estimators.newton import Newton

__all__ = ["EM", "AltMin", "Control", "Newton", "Run", "iterate"]
