"""Loaders for the data sets that ship with the package."""

from importlib import resources

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def tonedata() -> pd.DataFrame:
    """Tone perception: one musician tunes a tone to the octave.

    Returns
    -------
    pandas.DataFrame
        150 rows, one a trial.

        - ``stretchratio``: how far the overtones were stretched; 2 is a natural sound
        - ``tuned``: the tone the musician chose, as a ratio to the fundamental

    Notes
    -----
    Two lines are hidden in it: trials tuned to the octave, ``tuned = 2``, and trials tuned to
    the stretched overtone, ``tuned = stretchratio``. With three components the best optimum is
    hard to find.

    From the R package mixtools, under its licence, GPL-2.0-or-later: measurements of one
    experiment, of a dissertation.

    References
    ----------
    Cohen, E. A. (1980). Inharmonic tone perception. PhD thesis, Stanford University.

    De Veaux, R. D. (1989). Mixtures of linear regressions. Computational Statistics and Data
    Analysis 8, 227-245.

    Viele, K. and Tong, B. (2002). Modeling with mixtures of linear regressions. Statistics and
    Computing 12, 315-330.

    Examples
    --------
    >>> from mixreg import datasets
    >>> datasets.tonedata().shape
    (150, 2)
    """
    return _read("tonedata")


def co2() -> pd.DataFrame:
    """National product and carbon dioxide of 28 countries in 1996.

    Returns
    -------
    pandas.DataFrame
        28 rows, one a country.

        - ``GNP``: gross national product per head
        - ``CO2``: estimated carbon dioxide emission per head
        - ``country``: abbreviation of the country, text

    Notes
    -----
    With so few rows the likelihood has many optima, some of them spurious: a component that
    explains a handful of rows almost exactly.

    From the R package mixtools, under its licence, GPL-2.0-or-later: published figures of
    countries.

    References
    ----------
    Hurn, M., Justel, A. and Robert, C. P. (2003). Estimating mixtures of regressions. Journal
    of Computational and Graphical Statistics 12, 55-79.

    Examples
    --------
    >>> from mixreg import datasets
    >>> datasets.co2().columns.to_list()
    ['GNP', 'CO2', 'country']
    """
    return _read("co2", text=("country",))


def npreg() -> pd.DataFrame:
    """Artificial data with two classes and three kinds of response.

    Returns
    -------
    pandas.DataFrame
        200 rows.

        - ``x``: regressor, between 0 and 10
        - ``yn``: Gaussian response, a line in one class and a parabola in the other
        - ``yp``: Poisson response
        - ``yb``: Bernoulli response, 0 or 1
        - ``class``: true class, 1 or 2
        - ``id1``: 100 groups of 2 rows of the same class, categorical
        - ``id2``: 50 groups of 4 rows of the same class, categorical

    Notes
    -----
    From the R package flexmix, under its licence, GPL-2.0-or-later: artificial, drawn by its
    `ExNPreg(100)`.

    References
    ----------
    Leisch, F. (2004). FlexMix: a general framework for finite mixture models and latent class
    regression in R. Journal of Statistical Software 11(8), 1-18.

    Examples
    --------
    >>> from mixreg import datasets
    >>> int(datasets.npreg()["id2"].nunique())
    50
    """
    data = _read("npreg")
    # The numbers are names of groups: as categories nobody takes them for a regressor.
    return data.astype({"id1": "category", "id2": "category"})


def cheese() -> pd.DataFrame:
    """Weekly sales of sliced cheese at 88 retailers.

    Returns
    -------
    pandas.DataFrame
        5,555 rows, one a retailer and week.

        - ``RETAILER``: city and chain, text; rows of one retailer are repeated measures
        - ``VOLUME``: units sold
        - ``DISP``: share of the trade with an in-store display, between 0 and 1
        - ``PRICE``: price in US dollars

    Notes
    -----
    From the R package bayesm, under its licence, GPL-2.0-or-later: an author of the article, who
    is the author of the package, put them there.

    References
    ----------
    Boatwright, P., McCulloch, R. and Rossi, P. (1999). Account-level modeling for trade
    promotion. Journal of the American Statistical Association 94, 1063-1073.

    Examples
    --------
    >>> from mixreg import datasets
    >>> int(datasets.cheese()["RETAILER"].nunique())
    88
    """
    return _read("cheese", text=("RETAILER",))


def fabricfault() -> pd.DataFrame:
    """Faults in 32 rolls of fabric.

    Returns
    -------
    pandas.DataFrame
        32 rows, one a roll.

        - ``Length``: length of the roll, metres
        - ``Faults``: number of faults in it

    Notes
    -----
    The counts vary more than a Poisson regression on ``log(Length)`` allows. Two components
    that share the slope, or that take ``log(Length)`` as an offset, are enough.

    From the R package flexmix, under its licence, GPL-2.0-or-later: counts in Bissell
    (1972).

    References
    ----------
    Bissell, A. F. (1972). A negative binomial model with varying element sizes. Biometrika 59,
    435-441.

    Aitkin, M. (1996). A general maximum likelihood analysis of overdispersion in generalized
    linear models. Statistics and Computing 6, 251-262.

    Examples
    --------
    >>> from mixreg import datasets
    >>> datasets.fabricfault().shape
    (32, 2)
    """
    return _read("fabricfault")


def nmes1988() -> pd.DataFrame:
    """Demand for medical care by the elderly, United States, 1987 and 1988.

    Returns
    -------
    pandas.DataFrame
        4,406 rows, one a person aged 66 or more and covered by Medicare. Columns in words are
        categorical with the reference level first.

        - ``visits``: visits to the office of a physician
        - ``nvisits``: visits to the office of another professional
        - ``ovisits``: visits to a physician at a hospital, as an outpatient
        - ``novisits``: visits to another professional at a hospital, as an outpatient
        - ``emergency``: visits to an emergency room
        - ``hospital``: stays in hospital
        - ``health``: how healthy the person feels: average, excellent, poor
        - ``chronic``: number of chronic conditions
        - ``adl``: activities of daily living: normal, limited
        - ``region``: other, midwest, northeast, west
        - ``age``: tens of years
        - ``afam``: African-American: no, yes
        - ``gender``: female, male
        - ``married``: no, yes
        - ``school``: years of education
        - ``income``: income of the family, 10,000 US dollars
        - ``employed``: no, yes
        - ``insurance``: covered by private insurance: no, yes
        - ``medicaid``: covered by Medicaid: no, yes

    Notes
    -----
    The National Medical Expenditure Survey. Poisson mixtures of ``visits`` tell people who
    seldom see a physician from those who often do.

    From the R package AER, under its licence, GPL-2.0-only or GPL-3.0-only: answers to a survey of
    the United States government on public use tapes, in the extract of the article.

    References
    ----------
    Deb, P. and Trivedi, P. K. (1997). Demand for medical care by the elderly: a finite mixture
    approach. Journal of Applied Econometrics 12, 313-336.

    Examples
    --------
    >>> from mixreg import datasets
    >>> datasets.nmes1988()["health"].cat.categories.to_list()
    ['average', 'excellent', 'poor']
    """
    levels = {
        "health": ["average", "excellent", "poor"],
        "adl": ["normal", "limited"],
        "region": ["other", "midwest", "northeast", "west"],
        "gender": ["female", "male"],
        **{c: ["no", "yes"] for c in ("afam", "married", "employed", "insurance", "medicaid")},
    }
    # Treatment coding, here as in R, measures the other levels from the first.
    types = {column: pd.CategoricalDtype(order) for column, order in levels.items()}
    return _read("nmes1988", text=tuple(levels)).astype(types)


def camera() -> pd.DataFrame:
    """Conjoint choices between digital cameras.

    Returns
    -------
    pandas.DataFrame
        26,560 rows, one an alternative in a choice task of a respondent.

        - ``id``: respondent, 1 to 332
        - ``task``: choice task of the respondent, 1 to 16
        - ``alt``: alternative in the task, 1 to 5; the last is to buy none
        - ``chosen``: 1 for the alternative chosen, else 0
        - ``canon``, ``sony``, ``nikon``, ``panasonic``: 1 for the brand of the camera, else 0
        - ``pixels``: 1 for more pixels
        - ``zoom``: 1 for more zoom
        - ``video``: 1 if it records video
        - ``swivel``: 1 for a swivel display
        - ``wifi``: 1 for wireless
        - ``price``: hundreds of US dollars

    Notes
    -----
    ``id`` and ``task`` together name a choice set. All attributes of the alternative to buy
    none are 0. A coefficient divided by minus that of ``price`` is what respondents of a
    segment would pay.

    From the R package bayesm, under its licence, GPL-2.0-or-later: an author of the article, who
    is the author of the package, put them there.

    References
    ----------
    Allenby, G., Brazell, J., Howell, J. and Rossi, P. (2014). Economic valuation of product
    features. Quantitative Marketing and Economics 12, 421-456.

    Examples
    --------
    >>> from mixreg import datasets
    >>> int(datasets.camera()["chosen"].sum())
    5312
    """
    return _read("camera", packed=True)


def sim_p1_k3() -> pd.DataFrame:
    """Three simulated lines in one regressor.

    Returns
    -------
    pandas.DataFrame
        1,000 rows.

        - ``y``: response
        - ``x1``: regressor
        - ``z``: true class, 1 to 3

    Notes
    -----
    Intercepts -2, 0, 2 and slopes 1, -1, 0.5 for classes 1, 2, 3; noise with standard
    deviation 0.3.

    Simulated for mixreg, and under its licence, MIT.

    Examples
    --------
    >>> from mixreg import datasets
    >>> sorted(datasets.sim_p1_k3()["z"].unique().tolist())
    [1, 2, 3]
    """
    return _read("sim_p1_k3")


def sim_p2_k2() -> pd.DataFrame:
    """Two simulated planes in two regressors.

    Returns
    -------
    pandas.DataFrame
        500 rows.

        - ``y``: response
        - ``x1``, ``x2``: regressors
        - ``z``: true class, 1 or 2

    Notes
    -----
    Simulated for mixreg, and under its licence, MIT.

    Examples
    --------
    >>> from mixreg import datasets
    >>> datasets.sim_p2_k2().shape
    (500, 4)
    """
    return _read("sim_p2_k2")


def _read(name: str, *, text: tuple[str, ...] = (), packed: bool = False) -> pd.DataFrame:
    """Read a CSV file of the package with every digit.

    Parameters
    ----------
    name : str
        File name without its ending.
    text : tuple of str
        Columns that stay text; the others are numbers.
    packed : bool
        The file is compressed with xz.

    Returns
    -------
    pandas.DataFrame
        Rows in the order of the file, numbered from 0.
    """
    file_name = f"{name}.csv.xz" if packed else f"{name}.csv"
    with resources.files("mixreg.datasets").joinpath(file_name).open("rb") as file:
        # The number parser of older pandas may miss the last bit, so numbers are read as text.
        compression = "xz" if packed else None
        table = pd.read_csv(file, dtype=str, keep_default_na=False, compression=compression)
    return table.assign(**{c: _numbers(table[c].to_list()) for c in table if c not in text})


def _numbers(written: list[str]) -> NDArray[np.int64] | NDArray[np.float64]:
    """Turn text into whole numbers where all are whole, else into floats."""
    try:
        return np.array([int(value) for value in written], dtype=np.int64)
    except ValueError:
        return np.array([float(value) for value in written])
