"""The commands, their options, and what becomes of errors."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import mixreg
from mixreg import datasets
from mixreg.cli.demos import DEMOS, list_datasets, run_demo
from mixreg.cli.fitting import run_fit, run_predict
from mixreg.cli.tables import READ, write_table
from mixreg.errors import InputError, NotAvailableError
from mixreg.jobs.options import METHODS
from mixreg.report.prediction import WHICH
from mixreg.selection import CRITERIA

# What a bad call ends with, an error of ours, and Ctrl-C.
BAD_CALL, FAILED, INTERRUPTED = 2, 1, 130
FAMILIES = "gaussian, poisson, negativebinomial, binomial, gamma or choice"
EXAMPLES = """examples:
  mixreg fit sales.csv "np.log(volume) ~ np.log(price)" -k 3 --groups store --save sales.mixreg
  mixreg fit sales.parquet "volume ~ price" -k 1:6 --json
  mixreg predict sales.mixreg new.csv -o labels.csv
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    asked = make_parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            # Pyparsing has deprecations that are both; they are no matter of who runs a command.
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.showwarning = _show  # type: ignore[assignment]
            asked.run(asked)
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _ended("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read the output has seen enough; nothing more is to be flushed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if asked.debug:
            raise
        return _ended(*_in_words(error))
    return 0


def _in_words(error: Exception) -> tuple[str, int]:
    """An error in one line, and what the program ends with."""
    text = " ".join(str(error).split())
    if isinstance(error, (InputError, NotAvailableError, ImportError)):
        return text, BAD_CALL
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else text, BAD_CALL
    return f"{type(error).__name__}: {text} (add --debug to see where)", FAILED


def _ended(message: str, status: int) -> int:
    print(f"mixreg: {message}", file=sys.stderr)
    return status


def _show(message: Any, *_: Any) -> None:
    """Warnings in one line."""
    print(f"mixreg: warning: {' '.join(str(message).split())}", file=sys.stderr)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as all others of the program; so are its commands'."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with a call, and end."""
        self.exit(_ended(f"{' '.join(message.split())}; try {self.prog} --help", BAD_CALL))


def make_parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    parser = Parser(
        prog="mixreg",
        description="Find the hidden segments in regression data.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mixreg {mixreg.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    _add_fit(commands)
    _add_predict(commands)
    demo = _add(commands, "demo", "fit a bundled data set and print the segments")
    demo.add_argument("name", nargs="?", default="cheese", help=", ".join(DEMOS))
    demo.set_defaults(run=lambda asked: run_demo(asked.name))
    listed = _add(commands, "datasets", "list the bundled data sets, or print one as CSV")
    listed.add_argument("name", nargs="?", help="a data set to print")
    listed.add_argument("-o", "--out", help="a file to write it to")
    listed.set_defaults(run=_run_datasets)
    return parser


def _add(commands: Any, name: str, about: str) -> Any:
    parser = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
    parser.add_argument("--debug", action="store_true", help="show the whole traceback of errors")
    return parser


def _add_table(parser: Any) -> None:
    parser.add_argument("data", metavar="DATA", help=f"{READ} file, or - for the standard input")
    parser.add_argument("--sep", help="what is between the columns of a CSV file, as ';'")
    parser.add_argument("--encoding", help="encoding of a CSV file, as cp1252")


def _add_fit(commands: Any) -> None:
    fit = _add(commands, "fit", "fit a mixture of regressions to a table")
    _add_table(fit)
    fit.add_argument("formula", metavar="FORMULA", help='such as "y ~ x1 + C(region)"')
    fit.add_argument("-k", required=True, help="number of segments, or 1:6 to choose by BIC")
    fit.add_argument("--groups", help="column: all rows of a group share one segment")
    fit.add_argument("--concomitant", help='who is in which segment, as "~ age + income"')
    fit.add_argument("--family", help=FAMILIES)
    fit.add_argument("--choice-set", help="column: alternatives that were offered together")
    for name in ("weights", "offset", "exposure"):
        fit.add_argument(f"--{name}", help="column")
    fit.add_argument("--method", default="em", choices=METHODS)
    fit.add_argument("--criterion", default="bic", choices=list(CRITERIA), help="what chooses k")
    fit.add_argument("--seed", type=int, default=0)
    fit.add_argument("--save", metavar="FILE", help="keep the fit, for mixreg predict")
    fit.add_argument("--labels", metavar="FILE", help="segment of every row or group")
    fit.add_argument("--report", metavar="FILE", help="an HTML report")
    fit.add_argument("--plot", metavar="FILE", help="a picture: .png, .pdf or .svg")
    fit.add_argument("--json", action="store_true", help="print JSON, not tables")
    fit.add_argument("--quiet", action="store_true", help="no progress bar")
    fit.set_defaults(run=run_fit)


def _add_predict(commands: Any) -> None:
    predict = _add(commands, "predict", "label and predict new rows by a fit that was saved")
    predict.add_argument("model", metavar="MODEL", help="what mixreg fit --save wrote")
    _add_table(predict)
    predict.add_argument("-o", "--out", metavar="OUT", help="a file, or else CSV is printed")
    predict.add_argument(
        "--which",
        default="assign",
        choices=["assign", *WHICH],
        help="assign: label, certainty and probabilities of each row",
    )
    predict.set_defaults(run=run_predict)


def _run_datasets(asked: argparse.Namespace) -> None:
    if asked.name is None:
        list_datasets()
        return
    if asked.name not in datasets.__all__:
        raise InputError(
            f"there is no data set {asked.name!r}; there are {', '.join(datasets.__all__)}"
        )
    write_table(getattr(datasets, asked.name)(), asked.out)
