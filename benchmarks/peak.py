"""Most memory that a process has had.

The operating system's `ru_maxrss` says the same, but begins with that of the parent process.
"""

import resource
from pathlib import Path


def peak_memory(anew: bool = False) -> float:
    """Most memory that the process has had, in MB; on Linux, from now on if `anew`."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
