"""A journal of a fit: runs that ended, so that a checkpoint need not make them again.

A fit is the same each time that it is made, to the last bit. So it is enough to keep what took
long: where each stack of runs ended, and, once the search is over, what it found. A fit that is
taken up again goes the same way, and takes these from the journal instead of making them; any
part of a journal, from its beginning, will do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import FileFormatError, warn
from mixreg.estimators.loop import Run, StopReason
from mixreg.files.container import write_file
from mixreg.files.trees import packed
from mixreg.mixture.parameters import Parameters
from mixreg.search.record import Maximum, Record
from mixreg.search.tensor import TensorResult
from mixreg.sources.fingerprint import digest_of

Array = NDArray[np.float64]

# Seconds between two writings of the file, at least; and times what the last one took.
EVERY, SPARE = 1.0, 50.0


@dataclass(frozen=True, slots=True)
class Ends:
    """Where a stack of runs ended, R of them.

    Attributes
    ----------
    start : str
        A digest of the stack that they started from.
    coef, dispersion, gating : (R, ...) arrays
        Parameters, run by run.
    objective, n_iter, settled : (R,) arrays
        As in `Run`.
    history : array
        Of all runs, end to end.
    steps : (R,) int array
        How much of it belongs to each.
    reasons : tuple of str
    heavy : (R,) int array
        Newton's steps among the iterations.
    """

    start: str
    coef: Array
    dispersion: Array
    gating: Array
    objective: Array
    n_iter: NDArray[np.int64]
    settled: NDArray[np.bool_]
    history: Array
    steps: NDArray[np.int64]
    reasons: tuple[StopReason, ...]
    heavy: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Refuse parts that do not go together."""
        each = (self.coef, self.dispersion, self.gating, self.objective, self.n_iter, self.settled)
        runs = {*map(len, each), len(self.steps), len(self.reasons), len(self.heavy)}
        good = len(runs) == 1 and (self.steps > 0).all()
        if not good or int(self.steps.sum()) != len(self.history):
            raise FileFormatError("the checkpoint is damaged: its runs do not hold together")

    @staticmethod
    def of(fits: Sequence[Run], start: str) -> Ends:
        """Runs as arrays."""
        return Ends(
            start,
            np.stack([fit.params.coef for fit in fits]),
            np.stack([fit.params.dispersion for fit in fits]),
            np.stack([fit.params.gating for fit in fits]),
            np.array([fit.objective for fit in fits]),
            np.array([fit.n_iter for fit in fits], dtype=np.int64),
            np.array([fit.settled for fit in fits]),
            np.concatenate([fit.history for fit in fits]),
            np.array([len(fit.history) for fit in fits], dtype=np.int64),
            tuple(fit.reason for fit in fits),
            np.array([fit.steps for fit in fits], dtype=np.int64),
        )

    def fits(self) -> list[Run]:
        """The runs again."""
        histories = np.split(self.history, np.cumsum(self.steps)[:-1])
        return [
            Run(
                Parameters(self.coef[i], self.dispersion[i], self.gating[i]),
                float(self.objective[i]),
                history.copy(),
                self.reasons[i],
                int(self.n_iter[i]),
                bool(self.settled[i]),
                int(self.heavy[i]),
            )
            for i, history in enumerate(histories)
        ]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, and where it left the generator of random numbers.

    Attributes
    ----------
    ends : Ends
        The maxima, the winner first.
    kinds, arrivals
        Of each maximum, as in `Maximum`.
    starts, chance, moves, accepted, levels, exact, tensors, agreement
        As in `Record`.
    state, inc : str
        The generator's, whole numbers of 128 bits.
    has_uint32, uinteger : int
    """

    ends: Ends
    kinds: tuple[tuple[str, ...], ...]
    arrivals: tuple[int, ...]
    starts: int
    chance: float
    moves: int
    accepted: int
    levels: tuple[int, ...]
    exact: bool
    tensors: tuple[TensorResult, ...]
    agreement: float
    state: str
    inc: str
    has_uint32: int
    uinteger: int

    def __post_init__(self) -> None:
        """Refuse parts that do not go together."""
        count = len(self.ends.reasons)
        whole = self.state.isdecimal() and self.inc.isdecimal()
        if not len(self.kinds) == len(self.arrivals) == count > 0 or not whole:
            raise FileFormatError("the checkpoint is damaged: its search does not hold together")

    @staticmethod
    def of(record: Record, rng: np.random.Generator) -> Found:
        """A search that ended."""
        state: Any = rng.bit_generator.state
        return Found(
            Ends.of([m.run for m in record.maxima], ""),
            tuple(m.kinds for m in record.maxima),
            tuple(m.arrivals for m in record.maxima),
            record.starts,
            record.chance,
            record.moves,
            record.accepted,
            record.levels,
            record.exact,
            record.tensors,
            record.agreement,
            str(state["state"]["state"]),
            str(state["state"]["inc"]),
            int(state["has_uint32"]),
            int(state["uinteger"]),
        )

    def record(self, rng: np.random.Generator) -> Record:
        """Its record again, with the generator as the search left it."""
        state: Any = rng.bit_generator.state
        inner = {"state": int(self.state), "inc": int(self.inc)}
        spare = {"has_uint32": self.has_uint32, "uinteger": self.uinteger}
        rng.bit_generator.state = {**state, "state": inner, **spare}
        each = zip(self.ends.fits(), self.kinds, self.arrivals, strict=True)
        maxima = tuple(Maximum(fit, kinds, arrivals) for fit, kinds, arrivals in each)
        return Record(
            maxima[0].run,
            maxima,
            self.starts,
            self.chance,
            self.moves,
            self.accepted,
            self.levels,
            self.exact,
            self.tensors,
            self.agreement,
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the file holds.

    Attributes
    ----------
    of : dict
        What tells this fit from others.
    found : Found or None
        None while the search is not over.
    ends : tuple of Ends
        Runs that ended since then, or since the beginning.
    """

    of: dict[str, str]
    found: Found | None = None
    ends: tuple[Ends, ...] = ()


class Journal:
    """Runs that ended, in the order in which they are made; kept in a file.

    Parameters
    ----------
    path : Path
    kept : Checkpoint
        What the file holds, or is to begin with.
    """

    def __init__(self, path: Path, kept: Checkpoint) -> None:
        self.path, self.kept = path, kept
        self._next, self._due, self._written = 0, 0.0, True
        self._failed = False  # a warning is given once

    def runs(
        self, start: Parameters, make: Callable[[], list[Run]], at_once: bool = False
    ) -> list[Run]:
        """Runs from a start: those of the journal, or else made and entered; written in time."""
        key = digest_of(start.coef, start.dispersion, start.gating)
        known = self.kept.ends[self._next :]
        if not known or known[0].start != key:
            # Another machine may round in another way: what it goes on with is made anew.
            self._enter(Ends.of(make(), key), at_once)
        self._next += 1
        return self.kept.ends[self._next - 1].fits()

    def searched(self, search: Callable[[], Record], rng: np.random.Generator) -> Record:
        """What a search found: the journal's, or else made and entered."""
        if self.kept.found is None:
            found = Found.of(search(), rng)
            self.kept = replace(self.kept, found=found, ends=())
            self._next = 0
            self.write()
        assert self.kept.found is not None
        return self.kept.found.record(rng)

    def _enter(self, ends: Ends, at_once: bool) -> None:
        self.kept = replace(self.kept, ends=(*self.kept.ends[: self._next], ends))
        self._written = False
        if at_once or time.perf_counter() >= self._due:
            self.write()

    def write(self) -> None:
        """Write the file, in one step."""
        begin = time.perf_counter()
        try:
            write_file(self.path, packed(self.kept))
        except OSError as error:
            if not self._failed:
                warn(
                    f"the checkpoint {self.path} cannot be written ({error.strerror or error}); "
                    "the fit goes on, and tries again. If it is cut short, the same call begins "
                    "where the file stands",
                    UserWarning,
                )
            self._failed = True
        end = time.perf_counter()
        self._due, self._written = end + max(EVERY, SPARE * (end - begin)), True

    def close(self) -> None:
        """Write what was not written yet."""
        if not self._written:
            self.write()
