"""Reports for the browser to look at: plain, with everything, hostile, and of one segment."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from mixreg import MixReg, datasets, select_k


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    cheese = datasets.cheese()
    formula = "np.log(VOLUME) ~ DISP + np.log(PRICE)"
    choice = select_k(formula, cheese, k=[2, 3, 4], groups="RETAILER", n_init=4, n_jobs=1)
    by_retailer = cheese.groupby("RETAILER")
    about = pd.DataFrame({"weeks": by_retailer.size(), "price": by_retailer["PRICE"].mean()})
    about["city"] = about.index.str.split(" - ").str[0].isin(["CHICAGO", "NEW YORK", "LOS ANGELES"])
    choice.results[3].report(
        folder / "cheese.html", about, selection=choice, title="Cheese retailers"
    )

    tone = datasets.tonedata()
    MixReg.from_formula("tuned ~ stretchratio", tone, k=1).fit().report(folder / "one.html")

    bad = "<script>alert(1)</script>"
    rng = np.random.default_rng(0)
    x, kind = rng.normal(size=(2, 200)), rng.integers(0, 2, 200)
    frame = pd.DataFrame({bad: x[0], '"><img src=x onerror=alert(1)>': x[1]})
    y = pd.Series(np.where(kind, x[0], -x[1]) + 0.3 * rng.normal(size=200), name=f"{bad}y")
    shop = pd.Series(np.arange(200) // 2, name="</td>shop").map(
        lambda i: f"<svg onload=alert({i})>"
    )
    fitted = MixReg(y, frame, k=2, groups=shop, noise=True).fit(n_init=4)
    fitted.report(
        folder / "hostile.html", frame.assign(z=np.where(kind, bad, "</style>")), title=bad
    )


main(Path(sys.argv[1]))
