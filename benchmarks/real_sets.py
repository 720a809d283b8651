"""Real data sets on which the search for the best optimum is measured.

Where they come from is written in `data/SOURCES.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mixreg import MixReg, datasets

FOLDER = Path(__file__).parent / "data"


@dataclass(frozen=True)
class RealSet:
    """A table, a model for it, and the numbers of components to try."""

    name: str
    formula: str
    ks: tuple[int, ...]
    family: str = "gaussian"
    link: str | None = None
    groups: str | None = None
    choice_set: str | None = None
    weights: str | None = None
    concomitant: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of `MixReg.from_formula` that are not left at their defaults."""
        names = ("link", "groups", "choice_set", "weights", "concomitant")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return given if self.family == "gaussian" else {"family": self.family, **given}

    def model(self, data: pd.DataFrame, k: int) -> MixReg:
        """The model with k components."""
        return MixReg.from_formula(self.formula, data, k=k, **self.options)


BANK = (
    "Med_FInt + Low_FInt + Med_VInt + Rewrd_2 + Rewrd_3 + Rewrd_4 + Med_Fee + Low_Fee + Bank_B"
    " + Out_State + Med_Rebate + High_Rebate + High_CredLine + Long_Grace"
)
CAMERA = "canon + sony + nikon + panasonic + pixels + zoom + video + swivel + wifi + price"

SETS = (
    # Rows without groups.
    RealSet(
        "cps1988",
        "np.log(wage) ~ education + experience + I(experience**2) + ethnicity",
        (2, 3, 4),
    ),
    RealSet("diamonds", "np.log(price) ~ np.log(carat) + C(clarity)", (3, 4)),
    # Panels.
    RealSet("chem97", "score ~ gcsescore + gender", (2, 3), groups="school"),
    RealSet("laborsupply", "lnhr ~ lnwg + kids + age + disab", (2, 3, 4), groups="id"),
    RealSet("wlddev", "LIFEEX ~ np.log(PCGDP)", (3, 4, 5), groups="iso3c"),
    RealSet(
        "egsingle",
        "math ~ year",
        (2, 3, 4),
        groups="childid",
        concomitant="~ female + black + hispanic",
    ),
    # Counts.
    RealSet(
        "doctorvisits",
        "visits ~ gender + age + income + illness + reduced + health",
        (2, 3),
        family="poisson",
    ),
    RealSet(
        "randhie_visits",
        "mdvis ~ logc + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp",
        (2, 3, 4),
        family="poisson",
        groups="zper",
    ),
    RealSet(
        "innovation",
        "cites ~ institutions + np.log(capital / employment) + np.log(sales)",
        (2, 3),
        family="negativebinomial",
    ),
    RealSet(
        "detailing",
        "scripts ~ detailing + np.log1p(lagged_scripts)",
        (2, 3, 4),
        family="negativebinomial",
        groups="id",
    ),
    # Answers of 0 and 1.
    RealSet("verbagg", "answer ~ btype + situ + mode", (2, 3, 4), family="binomial", groups="id"),
    RealSet("bank", f"choice ~ 0 + {BANK}", (3, 4, 5), family="binomial", groups="id"),
    # Choices between several alternatives.
    RealSet(
        "electricity",
        "choice ~ pf + cl + loc + wk + tod + seas",
        (2, 3, 4),
        family="choice",
        groups="id",
        choice_set="chid",
    ),
    RealSet(
        "camera",
        f"chosen ~ {CAMERA}",
        (2, 3, 4, 5),
        family="choice",
        groups="id",
        choice_set="task",
    ),
    # Positive costs.
    RealSet(
        "randhie_costs",
        "meddol ~ logc + idp + linc + xage + female + disea",
        (2, 3),
        family="gamma",
        link="log",
    ),
)


def load(name: str) -> pd.DataFrame:
    """The table of a set, with all its rows."""
    if name == "camera":
        return datasets.camera()
    return read(FOLDER / f"{name}.csv.xz")


def read(file: Path) -> pd.DataFrame:
    """A packed table; numbers keep all their digits."""
    # The number parser of older pandas may miss the last bit, so numbers are read as text.
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    return table.assign(**{column: _numbers(table[column].to_list()) for column in table})


def _numbers(written: list[str]) -> np.ndarray | list[str]:
    """Whole numbers where all are whole, else floats; text if they are none."""
    for kind in (int, float):
        try:
            return np.array([kind(value) for value in written])
        except ValueError:
            continue
    return written
