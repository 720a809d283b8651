"""The command line: `mixreg demo`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import mixreg
from mixreg import datasets
from mixreg.model import MixReg


def demo() -> None:
    """Fit the bundled cheese sales, print the summary and the segments."""
    data = datasets.cheese()
    formula = "np.log(VOLUME) ~ DISP + np.log(PRICE)"
    print("Weekly cheese sales of 88 retailers; which ones react to price, which to display?")
    print(f'MixReg.from_formula("{formula}", cheese, k=3, groups="RETAILER").fit()\n')
    results = MixReg.from_formula(formula, data, k=3, groups="RETAILER").fit()
    print(results.summary())
    labels, certainty = results.group_labels, results.group_posterior.max(axis=1)
    print("\nSegments")
    for component in results.components:
        coef = results.coefficients[component]
        members = labels.index[labels == component]
        print(
            f"  {component}: {len(members)} retailers, price elasticity "
            f"{coef['np.log(PRICE)']:.2f}, display effect {coef['DISP']:.2f}, average certainty "
            f"{np.mean(certainty[members]):.3f}"
        )
        print(f"     {'; '.join(members[:4])}; ...")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="mixreg", description=__doc__)
    parser.add_argument("--version", action="version", version=f"mixreg {mixreg.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("demo", help="fit a bundled data set and print the segments")
    parser.parse_args(arguments)
    demo()
    return 0
