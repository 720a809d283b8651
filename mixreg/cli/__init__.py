"""The command line: `mixreg fit`, `predict`, `demo` and `datasets`."""

from mixreg.cli.commands import main

__all__ = ["main"]
