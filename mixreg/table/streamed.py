"""Declaring a model on a table that is read chunk by chunk into a scratch file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from patsy.eval import EvalEnvironment

from mixreg.errors import InputError, nearest
from mixreg.families import Family
from mixreg.jobs.bar import Bar
from mixreg.reading.buckets import together
from mixreg.reading.files import Files
from mixreg.sources import Source
from mixreg.sources.scratch import ScratchFile, ScratchWriter
from mixreg.table.chunks import ChunkMaker, named_columns, whole_groups
from mixreg.table.columns import formula_names
from mixreg.table.design import Design
from mixreg.table.far_names import FarNames, GroupCheck, Pieces
from mixreg.table.functions import evaluating
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
    names : RowNames
    """

    asked: tuple[Asked, ...]
    gate: Design | None
    raw: Source
    trials: tuple[bool, ...]
    names: RowNames


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of a table that is read piece by piece.

    Attributes
    ----------
    formulas, families, columns : tuples
        One of each for every response; columns are names.
    concomitant : str or None
    environment : EvalEnvironment
        Where formulas look up functions.
    names : set of str
        What is named anywhere, columns among them.
    k, noise, missing, subset
        As in `MixReg.from_formula`.
    """

    formulas: tuple[str, ...]
    families: tuple[Family, ...]
    columns: tuple[RowColumns, ...]
    concomitant: str | None
    environment: EvalEnvironment
    names: set[str]
    k: Any
    noise: bool
    missing: str
    subset: Any

    @property
    def key(self) -> str | None:
        """The column that says what gets one label."""
        own = self.columns[0]
        return own.groups or own.choice_set

    def check(self, there: tuple[str, ...], what: str = "data in files are read") -> None:
        """Refuse what a table with these columns cannot answer."""
        check_names(self.columns, there, what)
        for formula in self.formulas:
            refuse_arrays(set.union(*formula_names(formula)), there, self.environment)


@evaluating()
def read_files(
    data: Any, question: Question, scratch: Any, sort: bool, progress: bool | None
) -> Streamed:
    """Learn what formulas say of all chunks, then make their rows once, into a scratch file."""
    table = Files(data)
    before = table.fingerprint()
    question.check(table.columns)
    key = question.key
    wanted = [name for name in table.columns if name in question.names]
    with ExitStack() as rooms:
        bar = rooms.enter_context(Bar("mixreg", progress))

        def chunks() -> Iterator[pd.DataFrame]:
            return told(table.chunks(wanted, question.subset), bar)

        maker = make_maker(question, chunks, table.columns)
        frames = chunks()
        if sort and key is not None:
            folder = rooms.enter_context(tempfile.TemporaryDirectory(dir=scratch))
            frames = told(together(table, wanted, key, folder, question.subset), bar)
        found = written(
            maker,
            whole_groups(frames, key),
            key,
            scratch,
            data if isinstance(data, str) else "data",
        )
    if table.fingerprint() != before:
        raise InputError("files were changed while they were read; read them when they are whole")
    check_known(question, found.names)
    return found


def check_known(question: Question, names: RowNames) -> None:
    """Refuse known labels of groups that there are not."""
    known = question.columns[0].known_labels
    if not isinstance(known, dict):
        return
    left = set(known)
    for _, groups in names.chunks():
        left -= set() if groups is None else set(groups)
    if left:
        raise InputError(
            f"known_labels names groups that data does not have: {sorted(left, key=str)[:5]}"
        )


def told(frames: Iterator[pd.DataFrame], bar: Bar) -> Iterator[pd.DataFrame]:
    """The same chunks, which a bar tells of."""
    rows = 0
    for frame in frames:
        rows, bar.count = rows + len(frame), bar.count + 1
        if bar.is_due():
            bar.show("reading", f"{rows:,} rows")
        yield frame


def make_maker(question: Question, chunks: Frames, there: tuple[str, ...]) -> ChunkMaker:
    """What makes rows of chunks, with all that formulas learn from them."""
    designs, gate = learn(question, chunks, there)
    parts = zip(designs, question.families, question.columns, strict=True)
    columns = [settle_trials(own, family, design, chunks) for design, family, own in parts]
    return maker_of(question, designs, columns, gate)


def maker_of(
    question: Question, designs: list[Design], columns: Sequence[RowColumns], gate: Design | None
) -> ChunkMaker:
    """What makes rows of chunks, given what was learnt and which weights are trials."""
    parts = zip(designs, question.families, question.columns, strict=True)
    asked = tuple(Asked(design, family, own.names()) for design, family, own in parts)
    return ChunkMaker(asked, tuple(columns), gate, question.k, question.noise, question.missing)


def learn(
    question: Question, chunks: Frames, there: tuple[str, ...]
) -> tuple[list[Design], Design | None]:
    """What all formulas say, of the rows at which no other column is missing."""

    def usable() -> Iterator[pd.DataFrame]:
        for frame in chunks():
            found = [named_columns(each, frame).usable() for each in question.columns]
            masks = [mask for mask in found if mask is not None]
            yield frame[np.logical_and.reduce(masks)] if masks else frame

    return learnt(question, there, lambda number: usable)


def learnt(
    question: Question, there: tuple[str, ...], frames: Callable[[int], Frames]
) -> tuple[list[Design], Design | None]:
    """What all formulas say of the rows that each of them, by its number, is given."""
    where, pairs = question.environment, zip(question.formulas, question.families, strict=True)
    designs = [
        learn_design(formula, family, frames(i), there, where)
        for i, (formula, family) in enumerate(pairs)
    ]
    if question.concomitant is None:
        return designs, None
    return designs, learn_gate(question.concomitant, frames(len(designs)), there, where)


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
                    f"{field.name}={value!r} is not a column of the data{nearest(value, there)}"
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
