"""Checkpoints: a fit in a file as it goes on, which the same call takes up again."""

from __future__ import annotations

import os
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from mixreg.errors import FileFormatError, InputError
from mixreg.files.container import to_json
from mixreg.files.families import write_family
from mixreg.files.trees import unpacked
from mixreg.jobs.job import Job
from mixreg.jobs.journal import Checkpoint, Journal
from mixreg.mixture.parameters import Parameters
from mixreg.sources.fingerprint import digest_of
from mixreg.table.spec import Spec

# What columns of rows are called.
COLUMNS = {
    "x": "the regressors",
    "y": "the response",
    "offset": "the offset",
    "trials": "the trials",
    "opens": "the choice sets",
    "seen": "the missing responses",
    "weight": "the weights",
    "z": "the concomitants",
    "known": "the known labels",
    "starts": "the groups",
}


def open_journal(path: Any, job: Job, spec: Spec) -> Journal:
    """The journal of a fit: as the file has it, or a new one; refuse that of another fit."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"checkpoint={path!r} must be a name of a file, such as 'fit.ckpt'")
    target = Path(path)
    if not target.parent.is_dir() or target.is_dir():
        raise InputError(
            f"checkpoint={str(path)!r} is not a file in a folder that exists; make the folder "
            "first, or give another name"
        )
    mine = identity(job, spec)
    if not target.exists():
        return Journal(target, Checkpoint(mine))
    try:
        kept = unpacked(target, Checkpoint)
    except FileFormatError as error:
        # What follows the reason is about files of fits.
        reason = str(error).partition(". ")[0]
        raise FileFormatError(
            f"checkpoint={str(path)!r} cannot be taken up: {reason}. Delete the file, or give "
            "another name"
        ) from error
    _check_same(target, kept.of, mine)
    return Journal(target, kept)


def identity(job: Job, spec: Spec) -> dict[str, str]:
    """All that a fit depends on, as text: versions, model, options, and digests of the rows.

    How standard errors are made is not among it: they come after all that is kept.
    """
    options, mixture = job.options, job.problem.mixture
    families = [write_family(response.family) for response in spec.responses]
    found = {
        "mixreg": _version("mixreg"),
        "k": str(job.problem.k),
        "family": to_json(families).decode(),
        "shared": str(spec.shared),
        "only": str(spec.absent),
        "noise": str(mixture.background),
        "method": options.method,
        "init": _init(options.init),
        "n_init": str(options.effort.n_init),
        "max_iter": str(options.control.max_iter),
        "tol": repr(options.control.tol),
        "seed": str(options.seed),
        "resample": str(options.resample),
        "priors": repr(options.priors),
    }
    return found | {COLUMNS[name]: d for name, d in job.problem.source.fingerprint().items()}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _init(init: Any) -> str:
    """A start as text."""
    if isinstance(init, Parameters):
        return digest_of(*(getattr(init, field.name) for field in fields(init)))
    return digest_of(init) if isinstance(init, np.ndarray) else repr(init)


def _check_same(path: Path, was: dict[str, str], now: dict[str, str]) -> None:
    """Refuse a checkpoint of another fit, and say in what."""
    names = [name for name in {**now, **was} if was.get(name) != now.get(name)]
    if not names:
        return
    told = "; ".join(_difference(name, was.get(name), now.get(name)) for name in names)
    raise FileFormatError(
        f"the checkpoint {path} is of another fit: {told}. Fit the same model to the same data "
        "with the same options, or give another name for checkpoint="
    )


def _difference(name: str, was: str | None, now: str | None) -> str:
    if name not in COLUMNS.values():
        return f"{name} was {was} and is {now}"
    return f"{name} {'differ' if name.endswith('s') else 'differs'}"
