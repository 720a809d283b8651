"""Declaring a model on a table that is read chunk by chunk into a scratch file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from patsy.eval import EvalEnvironment

from mixreg.errors import InputError
from mixreg.families import Family
from mixreg.sources import Source
from mixreg.sources.scratch import ScratchFile, ScratchWriter
from mixreg.table.buckets import together
from mixreg.table.chunks import ChunkMaker, named_columns, whole_groups
from mixreg.table.columns import formula_names
from mixreg.table.design import Design
from mixreg.table.far_names import FarNames, GroupCheck, Pieces
from mixreg.table.files import Files
from mixreg.table.learning import Frames, learn_design, learn_gate, refuse_arrays
from mixreg.table.own_rows import RowNames
from mixreg.table.responses import Asked
from mixreg.table.rows import RowColumns


@dataclass(frozen=True, eq=False)
class Streamed:
    """What a table that was read has in it.

    Attributes
    ----------
    asked : tuple of Asked
    gate : Design or None
    raw : Source
        Rows as they were given.
    trials : tuple of bool
    names : FarNames
    """

    asked: tuple[Asked, ...]
    gate: Design | None
    raw: Source
    trials: tuple[bool, ...]
    names: RowNames


def read_files(
    data: Any,
    formulas: Sequence[str],
    families: Sequence[Family],
    columns: Sequence[RowColumns],
    concomitant: str | None,
    environment: EvalEnvironment,
    names: set[str],
    k: Any,
    noise: bool,
    missing: str,
    subset: Any,
    scratch: Any,
    sort: bool,
) -> Streamed:
    """Learn what formulas say of all chunks, then make their rows once, into a scratch file."""
    table = Files(data)
    check_names(columns, table.columns)
    for formula in formulas:
        refuse_arrays(set.union(*formula_names(formula)), table.columns, environment)
    wanted = [name for name in table.columns if name in names]
    key = columns[0].groups or columns[0].choice_set

    def chunks() -> Iterator[pd.DataFrame]:
        return table.chunks(wanted, subset)

    designs, gate = learn(formulas, families, columns, concomitant, chunks, table, environment)
    columns = [
        settle_trials(own, family, design, chunks)
        for own, family, design in zip(columns, families, designs, strict=True)
    ]
    asked = tuple(
        Asked(design, family, own.names())
        for design, family, own in zip(designs, families, columns, strict=True)
    )
    maker = ChunkMaker(asked, tuple(columns), gate, k, noise, missing)
    with ExitStack() as rooms:
        frames = chunks()
        if sort and key is not None:
            folder = rooms.enter_context(tempfile.TemporaryDirectory(dir=scratch))
            frames = together(table, wanted, key, folder, subset)
        return written(maker, whole_groups(frames, key), key, scratch, str(data))


def learn(
    formulas: Sequence[str],
    families: Sequence[Family],
    columns: Sequence[RowColumns],
    concomitant: str | None,
    chunks: Frames,
    table: Files,
    environment: EvalEnvironment,
) -> tuple[list[Design], Design | None]:
    """What all formulas say, of the rows at which no other column is missing."""

    def usable() -> Iterator[pd.DataFrame]:
        for frame in chunks():
            found = [named_columns(each, frame).usable() for each in columns]
            masks = [mask for mask in found if mask is not None]
            yield frame[np.logical_and.reduce(masks)] if masks else frame

    pairs = zip(formulas, families, strict=True)
    designs = [learn_design(f, family, usable, table.columns, environment) for f, family in pairs]
    if concomitant is None:
        return designs, None
    return designs, learn_gate(concomitant, usable, table.columns, environment)


def check_names(
    columns: Sequence[RowColumns], there: tuple[str, ...], what: str = "data in files are read"
) -> None:
    """Refuse arrays, and names of columns that there are not."""
    for own in columns:
        for field in fields(own):
            value = getattr(own, field.name)
            if value is None or (field.name == "known_labels" and isinstance(value, dict)):
                continue
            if not isinstance(value, str):
                raise InputError(
                    f"{field.name} is an array, but {what} piece by piece; put it "
                    f"into a column and give its name, {field.name}='column'"
                )
            if value not in there:
                raise InputError(
                    f"{field.name}={value!r} is not a column of the data; columns are "
                    f"{', '.join(there[:20])}"
                )
        if isinstance(own.known_labels, dict) and own.groups is None:
            raise InputError("known_labels as a dict needs groups=; give a column's name")


def settle_trials(own: RowColumns, family: Family, design: Design, chunks: Frames) -> RowColumns:
    """Weights of binomial proportions as their trials, if any response is a proportion."""
    if not family.takes_trials or own.weights is None or own.trials is not None:
        return own
    for frame in chunks():
        y = design.responses(frame)
        if y is not None and ((y > 0) & (y < 1)).any() and design.trials(frame) is None:
            return replace(own, trials=own.weights, weights=None)
    return own


def written(
    maker: ChunkMaker, frames: Iterator[pd.DataFrame], key: str | None, scratch: Any, data: str
) -> Streamed:
    """Rows of all chunks, one after the other, in a scratch file."""
    blocks, beside = ScratchWriter(scratch), ScratchFile(scratch)
    rows = Pieces(beside)
    keys = None if key is None else Pieces(beside)
    check = None if key is None else GroupCheck(beside, key, data)
    given = 0
    trials: tuple[bool, ...] = ()
    for frame in frames:
        made = maker(frame)
        given += made.given
        if made.block is None:
            continue
        blocks.append(made.block)
        rows.append(as_range(made.numbers))
        trials = trials or made.trials
        if keys is not None and check is not None:
            keys.append(made.groups)
            check.add(made.groups, frame[key].loc[frame.index.isin(made.numbers)])
    if not rows.places:
        raise InputError("data has no rows left; every row has a missing value")
    if keys is not None and check is not None:
        check.finish(keys)
    names = FarNames(given, rows, keys)
    return Streamed(maker.asked, maker.gate, blocks.source(), trials, names)


def as_range(numbers: Any) -> Any:
    """Numbers of rows, without a list of them where they follow each other."""
    first, last = int(numbers[0]), int(numbers[-1])
    steady = last - first + 1 == len(numbers) and bool((np.diff(numbers) == 1).all())
    return pd.RangeIndex(first, last + 1) if steady else pd.Index(numbers)
