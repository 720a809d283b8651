"""What the user declares: data, formulas and options, as a model's parts."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy.eval import EvalEnvironment

from mixreg.errors import InputError
from mixreg.reading.files import is_far
from mixreg.sources import in_memory
from mixreg.sources.threads import keep_memory, one_thread
from mixreg.table import concomitant as gates
from mixreg.table import design as designs
from mixreg.table import frames
from mixreg.table.arguments import called
from mixreg.table.checks import (
    subset_mask,
    yes_or_no,
)
from mixreg.table.columns import as_arrays, formula_names
from mixreg.table.distributed import is_distributed, read_cluster
from mixreg.table.own_rows import NamesAtHand
from mixreg.table.parts import ModelParts
from mixreg.table.responses import (
    Given,
    families_of,
    of_responses,
    read_formulas,
    resolved,
    side_by_side,
)
from mixreg.table.rows import RowColumns, declare, known_by_group, whole_sets
from mixreg.table.settled import settled
from mixreg.table.streamed import Question, Streamed, read_files
from mixreg.table.units import UserTable, user_table

Array = NDArray[np.float64]


class Declaration(ModelParts):
    """The parts of a model; see `MixReg` for the arguments."""

    @called("MixReg")
    def __init__(
        self,
        endog: Any,
        exog: Any,
        k: int,
        *,
        groups: Any = None,
        weights: Any = None,
        concomitant: Any = None,
        family: Any = "gaussian",
        link: Any = None,
        shared: Any = None,
        only: Any = None,
        choice_set: Any = None,
        known_labels: Any = None,
        noise: bool = False,
        offset: Any = None,
        exposure: Any = None,
        trials: Any = None,
        equal_variance: bool = False,
        variance_ratio: float = 1e-4,
        missing: str = "drop",
    ) -> None:
        keep_memory()  # before there are rows beside it
        _check_missing_option(missing)
        if isinstance(endog, str):
            raise InputError(
                f"endog={endog!r} is text; for a formula use "
                f"MixReg.from_formula({endog!r}, data, k={k})"
            )
        user = user_table(exog)
        made = families_of(family, link, equal_variance, variance_ratio, [""])[0]
        endog, exog, concomitant = as_arrays(endog, exog, concomitant)
        frame = exog if isinstance(exog, pd.DataFrame) else None
        given = RowColumns(groups, weights, offset, exposure, trials, choice_set, known_labels)
        columns = known_by_group(given, frame, None)
        gates.check_index(concomitant, exog, endog)
        usable = columns.usable()
        if missing == "raise":
            columns.refuse_missing()
        if concomitant is not None:
            usable = _both(usable, gates.usable_rows(concomitant, None, None, missing))
        design, table = designs.from_arrays(endog, exog, missing, usable, made.takes_trials)
        table, gate = whole_sets(table, columns, made), None
        _refuse_no_rows(table)
        if concomitant is not None:
            gate = gates.concomitants(concomitant, None, None, table.kept, table.index)
        asked = [Given(design, made, given.names(), table, columns)]
        self._declare(asked, gate, k, shared, only, noise, user)

    @classmethod
    @called("MixReg.from_formula")
    def from_formula(
        cls,
        formula: str | Sequence[str],
        data: Any = None,
        *,
        k: int,
        groups: Any = None,
        weights: Any = None,
        concomitant: str | None = None,
        family: Any = "gaussian",
        link: Any = None,
        shared: Any = None,
        only: Any = None,
        choice_set: Any = None,
        known_labels: Any = None,
        noise: bool = False,
        offset: Any = None,
        exposure: Any = None,
        trials: Any = None,
        subset: Any = None,
        missing: str = "drop",
        equal_variance: bool = False,
        variance_ratio: float = 1e-4,
        scratch: str | os.PathLike[str] | None = None,
        sort: bool = False,
        progress: bool | None = None,
        eval_env: int = 0,
    ) -> Self:
        """Declare a mixture of regressions by a formula.

        Parameters
        ----------
        formula : str or list of str
            As in patsy: `"y ~ x1 + C(region) + np.log(price)"`. With
            family="binomial" the left side may be `successes + failures`; with
            family="choice" an intercept is left out. A list has one formula for
            each of several responses that share a label and are independent
            given it; terms are then named `"y: x1"`, family and link may be
            lists, and offset, exposure and trials are dicts by response.
        data : DataFrame, another table, or files, optional
            Of pandas, polars (LazyFrames too), Arrow or DuckDB; see docs/data.md.
            Or Parquet, Feather or CSV files of any size: a path, a pattern such as
            `"sales/*.parquet"`, a folder, a list of paths, a pyarrow dataset; see
            docs/scaling.md. With `scratch`, LazyFrames and DuckDB relations are not
            collected either. Or a Dask DataFrame, whose rows stay on the cluster. The
            columns that are named are read. Rows that pandas has no index for are
            numbered from 0. Without data, names are looked up where this is called.
        k : int
            Number of components.
        groups, weights, choice_set, known_labels, offset, exposure, trials : optional
            A column's name or an array; see `MixReg`.
        concomitant : str, optional
            Formula of the class probabilities, such as `"~ age + income"`.
        subset : str, bool array or index labels, optional
            Rows to use: a query such as `"year > 2000"`, a mask, or labels.
        missing : {"drop", "raise"}
            What to do with rows that have missing values.
        family, link, shared, only, noise, equal_variance, variance_ratio
            See `MixReg`.
        scratch : path, optional
            With files and queries: the folder for a scratch file, which takes 8 bytes
            for every value of the design, and is gone with the model. The system's own
            if None.
        sort : bool
            With files and groups: bring the rows of each group together first.
        progress : bool, optional
            With files: show a progress bar while they are read, as `fit` does.
        eval_env : int
            Frames to go up when looking for names; 0 is the caller.

        Examples
        --------
        >>> from mixreg import MixReg, datasets
        >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
        >>> model.fit().weights.round(2).tolist()
        [0.63, 0.37]
        """
        keep_memory()  # before there are rows beside it
        _check_missing_option(missing)
        several = isinstance(formula, (list, tuple))
        formulas: list[Any] = list(formula) if several else [formula]
        families = families_of(family, link, equal_variance, variance_ratio, formulas)
        # The caller is two frames up: one checks the arguments.
        environment = EvalEnvironment.capture(eval_env, reference=2)
        given = RowColumns(groups, weights, offset, exposure, trials, choice_set, known_labels)
        each = of_responses(given, formulas)
        names = needed_names(formulas, concomitant, subset, vars(given))
        own = isinstance(data, pd.DataFrame)
        on_cluster = not own and is_distributed(data)
        in_files = not own and is_far(data, scratch is not None)
        if in_files or on_cluster:
            question = Question(
                tuple(formulas),
                tuple(families),
                tuple(each),
                concomitant,
                environment,
                names,
                k,
                yes_or_no("noise", noise),
                missing,
                subset,
            )
            if in_files:
                read = read_files(data, question, scratch, yes_or_no("sort", sort), progress)
                return cls._of_stream(read, k, shared, only, noise)
        if scratch is not None or sort:
            raise InputError(
                "scratch= and sort= are for data that are not in memory: files, and "
                "queries of polars and DuckDB; leave them out"
            )
        if on_cluster:
            return cls._of_stream(read_cluster(data, question), k, shared, only, noise)
        frame = None if data is None else frames.as_data(data, names)
        columns, usable = resolved(each, frame, environment.namespace)
        mask = None
        if subset is not None:
            if frame is None:
                raise InputError("subset needs data; pass a DataFrame")
            mask = subset_mask(frame, subset)
            if not mask.any():
                raise InputError(f"subset={subset!r} chooses no rows of data")
            frame, columns = frame[mask], [one.choose(mask) for one in columns]
            usable = None if usable is None else usable[mask]
        if missing == "raise":
            for one in columns:
                one.refuse_missing()
        if concomitant is not None:
            usable = _both(usable, gates.usable_rows(concomitant, frame, environment, missing))
        named = [one.names() for one in each]
        parts = read_formulas(
            formulas, families, columns, named, frame, environment, missing, usable
        )
        gate = None
        for part in parts:
            _refuse_no_rows(part.table)
        if concomitant is not None:
            table = parts[0].table
            gate = gates.concomitants(concomitant, frame, environment, table.kept, table.index)
        model = cls.__new__(cls)
        model._declare(parts, gate, k, shared, only, noise, user_table(data, mask))
        return model

    @classmethod
    @one_thread()
    def _of_stream(cls, read: Streamed, k: Any, shared: Any, only: Any, noise: bool) -> Self:
        spec, rows = settled(
            read.asked, read.raw, read.trials, read.gate, read.names, k, shared, only, bool(noise)
        )
        return cls.from_spec(spec, rows)

    @one_thread()
    def _declare(
        self,
        given: list[Given],
        gate: tuple[designs.Design, Array] | None,
        k: int,
        shared: Any,
        only: Any,
        noise: bool,
        user: UserTable,
    ) -> None:
        z = None if gate is None else gate[1]
        noise = yes_or_no("noise", noise)
        parts = [declare(g.table, g.columns, g.family, z, k, noise) for g in given]
        raw = in_memory(side_by_side([part.block for part in parts]))
        table = given[0].table
        names = NamesAtHand(parts[0].units, table.index, table.kept, user)
        trials = [part.block.trials is not None for part in parts]
        self.spec, self._rows = settled(
            given, raw, trials, None if gate is None else gate[0], names, k, shared, only, noise
        )


def needed_names(
    formulas: Sequence[str], concomitant: Any, subset: Any, arguments: dict[str, Any]
) -> set[str]:
    """Columns that formulas, a query and arguments name, among other names."""
    names = {name for formula in formulas for side in formula_names(formula) for name in side}
    if isinstance(concomitant, str):
        names |= gates.names_of(concomitant)
    if isinstance(subset, str):
        names |= {one or other for one, other in re.findall(r"`([^`]+)`|(\w+)", subset)}
    for value in arguments.values():
        each = value.values() if isinstance(value, dict) else [value]
        names |= {one for one in each if isinstance(one, str)}
    return names


def _check_missing_option(missing: str) -> None:
    if missing not in ("drop", "raise"):
        raise InputError(f"missing={missing!r} is unknown; use 'drop' or 'raise'")


def _refuse_no_rows(table: designs.Table) -> None:
    """Say that missing values made holes in all choice sets."""
    if len(table.y) == 0:
        raise InputError("every choice set has a missing value; fill them, or drop alternatives")


def _both(
    one: NDArray[np.bool_] | None, other: NDArray[np.bool_] | None
) -> NDArray[np.bool_] | None:
    if one is None or other is None:
        return one if other is None else other
    return one & other
