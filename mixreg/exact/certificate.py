"""The certificate: zero loss that no other components could reach.

Suppose that other components fit every row too. Rows that a true component alone
fits must then be shared out among wrong ones. A wrong hyperplane meets a true
one in rows that lie in a subspace of the regressors: for regressors in general
position it passes through no more rows than it has coefficients. So components
with more distinct rows of their own than that are the only ones.

Categories are not in general position, so rows are first cut into cells of
equal values of the columns that have few of them. Within a cell the other columns
must be in general position, or nearly so: rows that share a hyperplane count
against the component many times over. The cells must hang together: two
components that differ only by constants could trade places between cells.

Everything is decided on distinct rows, a sample of them that does not depend on
how rows are cut into blocks. A subset of the rows that leaves no choice leaves
none with more rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixreg.exact.crowding import crowd, levels
from mixreg.exact.thresholds import GAP, ROW
from mixreg.mixture.mixture import Mixture
from mixreg.mixture.parameters import Parameters
from mixreg.sources import Source
from mixreg.sources.block import Block
from mixreg.sources.standard import Whitening

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Keys = NDArray[np.uint64]

# Distinct rows of a component that are looked at.
SAMPLE = 4096
# Smallest eigenvalue, as a share of the largest, of cross products of full rank.
RANK = 1e-10
# Steps of a deviation to which values are rounded before they are compared.
STEPS = 2.0**30


@dataclass(frozen=True, slots=True)
class Distinct:
    """Distinct rows of one component: those with the smallest keys.

    Attributes
    ----------
    keys : (m,) array
        Hashes of the regressors, rising.
    rows : (m, p + 1) array
        Regressors, in deviations, and the response.
    """

    keys: Keys
    rows: Array

    def __add__(self, other: Distinct) -> Distinct:
        """Join with the rows of another block."""
        keys = np.concatenate([self.keys, other.keys])
        return distinct(keys, np.concatenate([self.rows, other.rows]))


def distinct(keys: Keys, rows: Array) -> Distinct:
    """One row for each key, of the smallest keys."""
    kept, first = np.unique(keys, return_index=True)
    return Distinct(kept[:SAMPLE], rows[first[:SAMPLE]])


@dataclass(frozen=True, slots=True)
class LoneRows:
    """Rows that one component alone fits exactly, for each component.

    Attributes
    ----------
    xx : (k, p, p) array
        Cross products of their standard regressors.
    samples : tuple of Distinct, one for each component
    unclear : int
        Units that no component fits exactly, or more than one.
    """

    xx: Array
    samples: tuple[Distinct, ...]
    unclear: int

    def __add__(self, other: LoneRows) -> LoneRows:
        """Add the rows of another block."""
        pairs = zip(self.samples, other.samples, strict=True)
        return LoneRows(
            self.xx + other.xx, tuple(a + b for a, b in pairs), self.unclear + other.unclear
        )


@dataclass(frozen=True, slots=True)
class FindOwnRows:
    """Task: rows that belong to one component only.

    Attributes
    ----------
    mixture : Mixture
    back : (p, p) array
        Standard regressors times this are the user's columns, in deviations.
    """

    mixture: Mixture
    back: Array

    def __call__(self, block: Block, params: Parameters) -> LoneRows:
        """Process one block."""
        fitted = fitted_exactly(self.mixture, block, params)
        whole = block.per_unit((~fitted).astype(float)) == 0
        known = np.zeros(block.units, dtype=bool) if block.known is None else block.known >= 0
        times = whole.sum(axis=0)
        unclear = int(((times != 1) & ~(known & (times > 1))).sum())
        alone = fitted & (fitted.sum(axis=0) == 1)
        columns = block.x @ self.back
        keys, rows = hashes(columns), np.column_stack([columns, block.y])
        xx = np.array([block.x[mine].T @ block.x[mine] for mine in alone])
        return LoneRows(xx, tuple(distinct(keys[mine], rows[mine]) for mine in alone), unclear)


def fitted_exactly(mixture: Mixture, block: Block, params: Parameters) -> NDArray[np.bool_]:
    """Which rows each component fits exactly, (k, rows)."""
    return np.asarray(np.abs(mixture.family.evaluate(block, params)) < ROW)


def fitted_alone(mixture: Mixture, block: Block, params: Parameters) -> NDArray[np.bool_]:
    """Which rows a component fits exactly and no other does, (k, rows)."""
    fitted = fitted_exactly(mixture, block, params)
    return np.asarray(fitted & (fitted.sum(axis=0) == 1))


def hashes(columns: Array) -> Keys:
    """A number for each row that is the same for equal rows, and else any."""
    total = np.zeros(columns.shape[0], dtype=np.uint64)
    for column in columns.T:
        total ^= np.rint(column * STEPS).astype(np.int64).view(np.uint64)
        # The finaliser of splitmix64, by Steele, Lea and Flood (2014).
        total += np.uint64(0x9E3779B97F4A7C15)
        total = (total ^ (total >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        total = (total ^ (total >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        total ^= total >> np.uint64(31)
    return total


def to_columns(whitening: Whitening) -> tuple[Array, Array]:
    """The way from standard regressors to the user's columns in deviations, and these.

    Returns
    -------
    (p, p) array, (p,) array
        The deviation of a constant column is taken for 1.
    """
    back = np.linalg.inv(whitening.basis)
    size = np.linalg.norm(back, axis=0)
    if whitening.has_constant:
        back[0] = 0.0  # Means of the columns, because the first regressor is 1.
    spread = np.linalg.norm(back, axis=0)
    constant = spread < 1e-10 * size
    back[:, constant], spread[constant] = 0.0, 1.0
    return back / spread, spread


def find_own_rows(
    source: Source, mixture: Mixture, params: Parameters, whitening: Whitening
) -> LoneRows:
    """Rows that each component alone fits exactly."""
    return source.sweep(FindOwnRows(mixture, to_columns(whitening)[0]), params)


def certified(own: LoneRows, mixture: Mixture, params: Parameters, whitening: Whitening) -> bool:
    """Whether these components are the only ones that fit every row exactly."""
    if own.unclear or not _full_rank(own.xx, mixture):
        return False
    spread = to_columns(whitening)[1]
    rows = np.concatenate([sample.rows for sample in own.samples])
    label = np.repeat(np.arange(params.k), [len(sample.keys) for sample in own.samples])
    codes = np.column_stack([levels(column) for column in rows.T])
    # Equal rows can differ in the last bits, and so in their hashes.
    first = np.unique(np.column_stack([label, codes[:, :-1]]), axis=0, return_index=True)[1]
    first.sort()
    rows, label, codes = rows[first], label[first], codes[first]
    if params.k == 1:
        return no_row_decides(rows[:, :-1])
    cell = cells(codes[:, :-1], params.k)
    varying = []
    for number in range(int(cell.max()) + 1):
        mine = cell == number
        moves = (codes[mine, :-1] != codes[mine][0, :-1]).any(axis=0)
        for j in range(params.k):
            own_part = rows[mine & (label == j)]
            if not _settled(own_part[:, :-1][:, moves], own_part[:, -1], spread[moves], params.k):
                return False
        varying.append(moves)
    slopes = whitening.to_user(params).coef * spread / whitening.scale
    return connected(np.array(varying), slopes)


def _full_rank(xx: Array, mixture: Mixture) -> bool:
    """Whether each component's own rows determine the coefficients that it has."""
    for j, products in enumerate(xx):
        there = np.ones(products.shape[0], dtype=bool)
        there[[i for component, i in mixture.absent if component == j]] = False
        values = np.linalg.eigvalsh(products[np.ix_(there, there)])
        if values[0] <= RANK * max(float(values[-1]), 1.0):
            return False
    return True


def no_row_decides(x: Array) -> bool:
    """Whether distinct rows have full rank still if any one of them is taken away."""
    z = np.column_stack([x, np.ones(x.shape[0])])
    z /= np.linalg.norm(z, axis=1)[:, None]
    u, values, _ = np.linalg.svd(z, full_matrices=False)
    u = u[:, values > GAP * values[0]]
    return bool(((u * u).sum(axis=1) < 1 - GAP).all())


def cells(codes: Codes, k: int) -> Codes:
    """Number rows (n, p) by the values of the columns that have few of them."""
    n = codes.shape[0]
    few = []
    for i, column in enumerate(codes.T):
        counts = np.bincount(column)
        if counts.shape[0] > 1 and counts.shape[0] ** 2 <= n and 2 * k * counts.max() > n:
            few.append(i)
    return np.unique(codes[:, few], axis=0, return_inverse=True)[1].reshape(n)


def _settled(x: Array, y: Array, spread: Array, k: int) -> bool:
    """Whether k hyperplanes must include the one that these rows of a cell lie on.

    Parameters
    ----------
    x : (n, q) array
        Distinct rows, of the columns that vary in the cell, in deviations.
    y : (n,) array
        Responses.
    spread : (q,) array
        Deviations of the columns.
    k : int
        Number of components.
    """
    n, q = x.shape
    answers = np.bincount(levels(y)) if n else np.zeros(0, dtype=np.intp)
    if q == 0 or min(n, answers.shape[0]) <= q + 1:
        return False
    if q == 1:
        # Two of the rows on one of k lines make it this line, whatever the design.
        return min(n, answers.shape[0]) > k
    centred = x - x.mean(axis=0)
    scale = np.maximum(centred.std(axis=0), 1e-300)
    values = np.linalg.svd(centred / scale, compute_uv=False)
    if values[-1] < 1e-7 * values[0]:
        return False
    together = max(crowd(x, spread), int(answers.max()))
    return n > q + 1 + 2 * k * max(0, together - q)


def connected(varying: NDArray[np.bool_], slopes: Array) -> bool:
    """Whether components can be followed from cell to cell by their slopes.

    Parameters
    ----------
    varying : (cells, p) bool array
        Columns that vary within each cell.
    slopes : (k, p) array
        Coefficients, for columns and a response of unit deviation.
    """
    first, second = np.triu_indices(slopes.shape[0], 1)
    differ = np.abs(slopes[first] - slopes[second]) > 1e-6
    reached, new = np.zeros(varying.shape[0], dtype=bool), [0]
    while new:
        at = new.pop()
        reached[at] = True
        both = (varying & varying[at])[:, None, :]
        linked = (both & differ).any(axis=2).all(axis=1)
        new += np.flatnonzero(linked & ~reached).tolist()
        reached |= linked
    return bool(reached.all())
