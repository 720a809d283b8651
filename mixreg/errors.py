"""Errors and warnings that mixreg raises, in one place."""

from __future__ import annotations

import difflib
import inspect
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

PACKAGE = str(Path(__file__).parent)
# Names that a message lists at the most.
MOST_LISTED = 20


class InputError(ValueError):
    """An argument is wrong. The message names it, its value and what to try.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=0)
    Traceback (most recent call last):
        ...
    mixreg.errors.InputError: k must be a whole number of at least 1; got 0
    """


class FileFormatError(InputError):
    """A file is not one of ours, or not whole; or a fit has what a file cannot keep.

    Examples
    --------
    >>> import pathlib, tempfile, mixreg
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tone.mixreg"
    >>> path.write_text("not a fit")
    9
    >>> try:
    ...     mixreg.load(path)
    ... except mixreg.FileFormatError:
    ...     print("refused")
    refused
    """


class ConvergenceWarning(UserWarning):
    """A fit stopped before it converged, or its objective fell; or chains did not converge.

    Examples
    --------
    >>> import warnings
    >>> from mixreg import ConvergenceWarning, MixReg, datasets
    >>> model = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2)
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     res = model.fit(init="random", max_iter=1)
    >>> told[0].category is ConvergenceWarning, res.converged
    (True, False)
    """


class DegenerateFitWarning(UserWarning):
    """A component emptied and could not be brought back.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from mixreg import DegenerateFitWarning, MixReg
    >>> y, x = np.repeat([0.0, 1.0], 30), np.tile([1.0, 2.0, 3.0], 20)
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     res = MixReg(y, np.column_stack([np.ones(60), x]), k=3).fit()
    >>> told[0].category is DegenerateFitWarning
    True
    """


class InputWarning(UserWarning):
    """Data can be used, but are likely not what they were meant to be.

    Examples
    --------
    >>> import warnings
    >>> from mixreg import InputWarning
    >>> from mixreg.sklearn import MixtureRegressor
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     model = MixtureRegressor(k=3).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 5.0, 2.0])
    >>> told[0].category is InputWarning, model.k_
    (True, 2)
    """


class InterpretationWarning(UserWarning):
    """A number was made that does not mean what its name says.

    Examples
    --------
    >>> import warnings
    >>> from mixreg import InterpretationWarning, MixReg, datasets
    >>> camera = datasets.camera().head(1600)
    >>> choice = {"family": "choice", "choice_set": "task", "groups": "id"}
    >>> res = MixReg.from_formula("chosen ~ canon + zoom + price", camera, k=2, **choice).fit()
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     table = res.wtp("price")
    >>> told[0].category is InterpretationWarning, res.coefficients.loc["price"].round(1).tolist()
    (True, [-1.0, 0.3])
    """


class NotAvailableError(AttributeError):
    """A quantity was asked for that this fit cannot give, with the reason.

    Examples
    --------
    >>> from mixreg import MixReg, datasets
    >>> res = MixReg.from_formula("tuned ~ stretchratio", datasets.tonedata(), k=2).fit()
    >>> res.elbo
    Traceback (most recent call last):
        ...
    mixreg.errors.NotAvailableError: only method='vb' has a lower bound; see llf for this fit
    """


class NotInstalledError(ImportError):
    """A package that is not part of every installation is needed, with the line that installs it.

    Examples
    --------
    >>> from mixreg import NotInstalledError
    >>> issubclass(NotInstalledError, ImportError)
    True
    """


class AlignmentError(ValueError):
    """Components of draws cannot be told apart, so label switching cannot be undone.

    Examples
    --------
    >>> import numpy as np
    >>> from mixreg import AlignmentError, ppl
    >>> from mixreg.ppl.compat import draws_of
    >>> coef = np.random.default_rng(0).standard_normal((2, 50, 2, 1))
    >>> names = {"component": [1, 2], "term": ["x"]}
    >>> data = draws_of({"posterior": ({"coef": coef}, {"coef": list(names)})}, names)
    >>> try:
    ...     found = ppl.align(data)
    ... except AlignmentError:
    ...     print("components of these draws are alike")
    components of these draws are alike
    """


class ClusterError(RuntimeError):
    """The cluster that has the rows is gone, or its workers die of a task.

    Examples
    --------
    >>> from mixreg.errors import ClusterError
    >>> issubclass(ClusterError, RuntimeError)
    True
    """


@contextmanager
def needs(what: str, packages: str, extra: str | None = None, instead: str = "") -> Iterator[None]:
    """Import what an extra brings, or say how to get it.

    Parameters
    ----------
    what : str
        What needs them, with its verb, as "plots need".
    packages : str
        What is missing, as one says it.
    extra : str or None
        The extra that brings them; None if none does, and they are installed by their name.
    instead : str
        Another way, which needs nothing.

    Raises
    ------
    NotInstalledError

    Examples
    --------
    >>> from mixreg.errors import needs
    >>> try:
    ...     with needs("this needs", "no-such-package"):
    ...         import no_such_package
    ... except ImportError as error:
    ...     print(error)
    this needs no-such-package, which is not installed; try: python -m pip install "no-such-package"
    """
    try:
        yield
    except ImportError as error:
        # pandas says in words of its own that a module was not found.
        absent = isinstance(error, ModuleNotFoundError) or isinstance(
            error.__cause__, ModuleNotFoundError
        )
        missing = "not all of which are" if " and " in packages else "which is not"
        why = f"{missing} installed" if absent else f"which cannot be imported ({error})"
        raise NotInstalledError(
            f"{what} {packages}, {why}; try: {install_line(packages, extra)}{instead}"
        ) from error


def install_line(packages: str, extra: str | None = None) -> str:
    """The command that installs what an extra brings.

    It names the packages themselves, so that it works wherever mixreg came from: an index,
    a clone or a file.

    Examples
    --------
    >>> from mixreg.errors import install_line
    >>> install_line("great-tables")
    'python -m pip install "great-tables"'
    """
    wanted = packages.replace(" and ", " ").split()
    if extra is not None:
        marker = re.compile(rf"""^([^;]+);.*\bextra\s*==\s*['"]{extra}['"]""")
        try:
            known = metadata.requires("mixreg") or []
        except metadata.PackageNotFoundError:
            # The package is on the path without having been installed.
            known = []
        found = [match.group(1).strip() for match in map(marker.match, known) if match]
        wanted = found or wanted
    return " ".join(["python -m pip install", *(f'"{each}"' for each in wanted)])


def nearest(name: object, known: Iterable[object], what: str = "columns are") -> str:
    """The end of a message on a name that is not known: the nearest one, or what there is.

    Examples
    --------
    >>> from mixreg.errors import nearest
    >>> nearest("prise", ["price", "volume"])
    "; did you mean 'price'?"
    >>> nearest("shop", ["price", "volume"])
    '; columns are price, volume'
    """
    names = [str(each) for each in known]
    # Capitals are the most common slip of all.
    lower = {each.lower(): each for each in reversed(names)}
    close = difflib.get_close_matches(str(name).lower(), lower, n=1)
    if close:
        return f"; did you mean {lower[close[0]]!r}?"
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return f"; {what} {', '.join(names[:MOST_LISTED])}{more}" if names else ""


def warn(message: str, category: type[Warning]) -> None:
    """Warn where the user's own code called the package.

    Examples
    --------
    >>> import warnings
    >>> from mixreg.errors import InputWarning, warn
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     warn("the response is constant", InputWarning)
    >>> str(told[0].message)
    'the response is constant'
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
