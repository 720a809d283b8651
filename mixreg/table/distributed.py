"""Declaring a model on a Dask DataFrame: its partitions become blocks where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from mixreg.errors import InputError
from mixreg.families import Family
from mixreg.reading.buckets import hashed
from mixreg.sources.base import added
from mixreg.sources.client import Cluster, connected, labelled
from mixreg.sources.cluster import Held, cluster_source, held, shape_of
from mixreg.table.chunks import ChunkMaker
from mixreg.table.cluster_names import PLACE, ROWS_OF_PARTITION, ClusterNames, PartNames
from mixreg.table.concomitant import names_of
from mixreg.table.cost import described
from mixreg.table.design import Design
from mixreg.table.learning import TOLD_BY, Frames
from mixreg.table.rows import RowColumns
from mixreg.table.scouting import Chosen, KeysSeen, Scout, filled_up, sketch
from mixreg.table.streamed import Question, Streamed, check_known, learnt, maker_of, settle_trials

# Partitions of which several rows are looked at; of the others, one and one for each level.
LOOKED_AT = 8


def is_distributed(data: Any) -> bool:
    """Whether data are a Dask DataFrame; Dask is not imported to tell."""
    return type(data).__module__.startswith("dask.") and hasattr(data, "to_delayed")


@dataclass(frozen=True, eq=False)
class Partitions:
    """A Dask DataFrame, and the cluster that it is on.

    Attributes
    ----------
    cluster : Cluster
    frame : dask DataFrame
        The columns that are needed.
    chosen : Chosen
    """

    cluster: Cluster
    frame: Any
    chosen: Chosen

    def each(self, what: str, task: Any, *arguments: Any) -> list[Any]:
        """What a task says of each partition, as delayed objects.

        Arguments that are lists have one entry for each partition.
        """
        from dask import delayed

        name = labelled(what)
        task, chosen = (
            delayed(one, name=f"{name}-{i}") for i, one in enumerate((task, self.chosen))
        )
        found = []
        for i, part in enumerate(self.frame.to_delayed()):
            own = [each[i] if isinstance(each, list) else each for each in arguments]
            found.append(delayed(on_rows)(task, chosen, part, *own, dask_key_name=f"{name}-of-{i}"))
        return found


def on_rows(task: Any, chosen: Chosen, frame: pd.DataFrame, *arguments: Any) -> Any:
    """Run a task on the rows of a partition that are chosen, on a worker."""
    return task(chosen(frame), *arguments)


def read_cluster(data: Any, question: Question) -> Streamed:
    """Learn what formulas say of all partitions, then make their rows, on the workers."""
    there, subset = tuple(data.columns), question.subset
    question.check(there, "data on a cluster are met")
    if subset is not None and not isinstance(subset, str):
        raise InputError(
            f"subset={type(subset).__name__} has no place beside data on a cluster; give a query "
            "such as subset='year > 2000', or choose the rows first, as in ddf[ddf.year > 2000]"
        )
    wanted = tuple(name for name in there if name in question.names)
    parts = Partitions(connected(), data[list(wanted)], Chosen(wanted, subset, {}))
    scout = make_scout(question, there)
    found, apart = looked(parts, scout, question.key)
    levels = common_levels([frame for some in found for frame in some])
    if levels:
        parts = replace(parts, chosen=Chosen(wanted, subset, levels))
        found = [[recoded(frame, levels) for frame in some] for some in found]
    designs, gate = learn(parts, scout, found, question)
    settled = settle(parts, question.columns, question.families, designs)
    maker = maker_of(question, designs, settled, gate)
    read = made(parts, maker, question.key, apart)
    check_known(question, read.names)
    return read


def make_scout(question: Question, there: tuple[str, ...]) -> Scout:
    """Who looks at partitions for all formulas, that of the concomitants last."""
    texts = list(question.formulas)
    if question.concomitant is not None:
        names_of(question.concomitant)  # refuses what is no formula
        texts.append(question.concomitant)
    descriptions = [described(text) for text in texts]
    sides = [(each.lhs_termlist, each.rhs_termlist) for each in descriptions]
    sketches = tuple(sketch(each, there, question.environment) for each in sides)
    return Scout(sketches, question.columns)


def looked(parts: Partitions, scout: Scout, key: str | None) -> tuple[list[Any], bool]:
    """Rows of each partition that tell of it, and whether groups are in several partitions."""
    from dask import delayed

    count = parts.frame.npartitions
    firsts = [TOLD_BY if i < LOOKED_AT else 1 for i in range(count)]
    tasks = parts.each("learn", scout, firsts)
    if key is not None and count > 1:
        # Where groups are many, their hashes stay where they are.
        tasks.append(delayed(are_apart)(total(parts.each("groups", Keys(key)))))
    found = parts.cluster.gathered(tasks)
    return found[:count], any(found[count:])


def are_apart(seen: KeysSeen) -> bool:
    """Whether a group is in several partitions."""
    return seen.apart


def total(delayed_sums: list[Any]) -> Any:
    """Delayed results added up, neighbours first."""
    from dask import delayed

    while len(delayed_sums) > 1:
        delayed_sums = [
            delayed(added)(delayed_sums[i : i + 8]) for i in range(0, len(delayed_sums), 8)
        ]
    return delayed_sums[0]


@dataclass(frozen=True)
class Keys:
    """Looks at the groups of a partition."""

    name: str

    def __call__(self, frame: pd.DataFrame) -> KeysSeen:
        """Hashes of their names."""
        return KeysSeen(np.unique(hashed(frame[self.name].dropna())))


def common_levels(found: list[pd.DataFrame]) -> dict[str, Any]:
    """Categories of columns whose partitions have different ones, in order."""
    types: dict[str, list[Any]] = {}
    for frame in found:
        for name, dtype in frame.dtypes.items():
            if len(frame) and isinstance(dtype, pd.CategoricalDtype):
                types.setdefault(str(name), []).append(dtype)
    return {
        name: _union(each)
        for name, each in types.items()
        if any(not one.categories.equals(each[0].categories) for one in each)
    }


def _union(types: list[Any]) -> pd.CategoricalDtype:
    every = list(dict.fromkeys(level for each in types for level in each.categories))
    try:
        return pd.CategoricalDtype(sorted(every))
    except TypeError:
        return pd.CategoricalDtype(every)


def recoded(frame: pd.DataFrame, levels: dict[str, Any]) -> pd.DataFrame:
    """A frame with categories that all partitions share."""
    return frame.astype({name: kind for name, kind in levels.items() if name in frame.columns})


def learn(
    parts: Partitions, scout: Scout, found: list[list[pd.DataFrame]], question: Question
) -> tuple[list[Design], Design | None]:
    """What all formulas say, of rows that tell of each partition."""

    def frames(number: int) -> Frames:
        if not scout.sketches[number].whole:
            return lambda: (some[number] for some in found)
        return lambda: whole_columns(parts, scout, [some[number] for some in found], number)

    return learnt(question, scout.sketches[0].there, frames)


def whole_columns(
    parts: Partitions, scout: Scout, found: list[pd.DataFrame], number: int
) -> Iterator[pd.DataFrame]:
    """Columns that a formula needs whole, partition by partition, here."""
    tasks = parts.each("whole columns", Whole(scout, number))
    for task, some in zip(tasks, found, strict=True):
        if len(some):
            yield filled_up(some, parts.cluster.gathered([task])[0])


@dataclass(frozen=True, eq=False)
class Whole:
    """Takes the columns of a partition that a formula needs whole."""

    scout: Scout
    number: int

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """All their rows at which nothing is missing."""
        return self.scout.whole(frame, self.number)


def settle(
    parts: Partitions,
    columns: Sequence[RowColumns],
    families: Sequence[Family],
    designs: Sequence[Design],
) -> list[RowColumns]:
    """Weights of binomial proportions as their trials, if any response is a proportion."""
    settled = []
    for own, family, design in zip(columns, families, designs, strict=True):
        may_be = family.takes_trials and own.weights is not None and own.trials is None
        if may_be:
            found = parts.cluster.gathered(parts.each("trials", Settled(own, family, design)))
            own = next((each for each in found if each != own), own)
        settled.append(own)
    return settled


@dataclass(frozen=True, eq=False)
class Settled:
    """Tells by a partition whether weights are trials."""

    own: RowColumns
    family: Family
    design: Design

    def __call__(self, frame: pd.DataFrame) -> RowColumns:
        """The columns as this partition knows them."""
        return settle_trials(self.own, self.family, self.design, lambda: iter([frame]))


def shuffled(parts: Partitions, key: str | None) -> Partitions:
    """The same rows with each group in one partition."""
    numbered = parts.frame.map_partitions(placed, enforce_metadata=False)
    return Partitions(parts.cluster, numbered.shuffle(on=key), parts.chosen)


def placed(frame: pd.DataFrame, partition_info: Any = None) -> pd.DataFrame:
    """A partition with a column of its rows' places."""
    number = 0 if partition_info is None else partition_info["number"]
    return frame.assign(**{PLACE: number * ROWS_OF_PARTITION + np.arange(len(frame))})


@dataclass(frozen=True, eq=False)
class Made:
    """Makes the blocks of a partition, with names beside them."""

    maker: ChunkMaker
    key: str | None

    def __call__(self, frame: pd.DataFrame) -> Held:
        """Its rows, as a worker holds them."""
        made = self.maker(frame)
        if made.block is None or made.places is None:
            nothing = np.empty(0, dtype=np.intp)
            return held(None, PartNames(frame.index[:0], nothing, None, None, len(frame), ()))
        sizes = None
        if made.block.starts is not None:
            sizes = np.diff(made.block.starts, append=made.block.rows)
        index, groups = frame.index[made.places], made.groups if self.key else None
        places = np.asarray(frame[PLACE])[made.places] if PLACE in frame.columns else made.places
        names = PartNames(index, places, sizes, groups, made.given, made.trials)
        return held(made.block, names)


def summary_of(rows: Held) -> tuple[Any, int, tuple[bool, ...]]:
    """The shape of a partition, how many rows it had, and which responses have trials."""
    return shape_of(rows), rows.beside.given, rows.beside.trials


def made(given: Partitions, maker: ChunkMaker, key: str | None, apart: bool) -> Streamed:
    """Blocks of all partitions, on the workers."""
    import dask.dataframe as dd
    from dask import delayed

    parts = shuffled(given, key) if apart else given
    cluster = parts.cluster
    every = tuple(cluster.compute(parts.each("blocks", Made(maker, key))))
    name = labelled("shapes")
    found = cluster.gathered(
        [delayed(summary_of)(rows, dask_key_name=f"{name}-{i}") for i, rows in enumerate(every)]
    )
    trials = next((each[2] for each in found if each[2]), None)
    if trials is None:
        raise InputError("data has no rows left; every row has a missing value")
    source = cluster_source(cluster, every, [each[0] for each in found])
    empty = dd.utils.make_meta(given.frame).index
    names = ClusterNames(
        cluster,
        every,
        sum(each[1] for each in found),
        given.frame.divisions,
        empty,
        key is not None,
        apart,
    )
    return Streamed(maker.asked, maker.gate, source, trials, names)
