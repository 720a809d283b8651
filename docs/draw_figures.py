"""Draw the pictures of docs/frames_and_plots.md: python docs/draw_figures.py."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

from mixreg import MixReg, datasets, select_k
from mixreg.simulate import mixed_linear_equations

HERE = Path(__file__).parent / "figures"
CAMERA = ["canon", "sony", "nikon", "zoom", "price"]


def save(axes, name):
    """Write the figure of some axes."""
    first = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()[0]
    figure = first.figure.get_figure(root=True)
    figure.savefig(HERE / f"{name}.png", dpi=72)
    mpl.pyplot.close(figure)


def main():
    """Fit, draw, write."""
    mpl.use("Agg")
    tone, cheese, camera = datasets.tonedata(), datasets.cheese(), datasets.camera()
    lines = MixReg.from_formula("tuned ~ stretchratio", tone, k=2).fit()
    formula = "np.log(VOLUME) ~ DISP + np.log(PRICE)"
    shops = MixReg.from_formula(formula, cheese, k=3, groups="RETAILER").fit()
    choice = {"family": "choice", "choice_set": "task", "groups": "id"}
    buyers = MixReg.from_formula(f"chosen ~ {' + '.join(CAMERA)}", camera, k=3, **choice).fit()
    nmes = datasets.nmes1988()
    visits = MixReg.from_formula(
        "visits ~ hospital + health + age", nmes, k=2, family="negativebinomial"
    ).fit()
    save(shops.plot(), "plot_page")
    save(lines.plot_components(), "plot_components")
    save(shops.plot_components("np.log(PRICE)"), "plot_partial")
    save(visits.plot_coefficients(exponentiate=True), "plot_coefficients")
    save(buyers.plot_posterior(), "plot_posterior")
    save(shops.plot_search(), "plot_search")
    save(select_k("tuned ~ stretchratio", tone, k=range(1, 6)).plot(), "plot_selection")
    save(visits.plot_profile(nmes[["age", "income", "health", "gender"]]), "plot_profile")
    save(visits.plot_residuals(), "plot_residuals")
    save(buyers.plot_shares(camera.head(5)[CAMERA], labels=list("ABCDE")), "plot_shares")
    save(buyers.plot_wtp("price"), "plot_wtp")
    made = mixed_linear_equations(3000, 8, 3, noise=0.3, seed=1).frame()
    terms = " + ".join(f"x{i}" for i in range(1, 9))
    save(MixReg.from_formula(f"y ~ {terms}", made, k=3).fit().plot_tensor(), "plot_tensor")


if __name__ == "__main__":
    main()
