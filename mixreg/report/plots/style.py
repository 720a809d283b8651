"""The look that all plots share: colours, marks, lines, and how axes are dressed.

Colours are those of Okabe and Ito, which people tell apart whatever their sight. Components
have a mark and a line of their own as well, so that plots can be read in greyscale.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import InputError, needs

Array = NDArray[np.float64]

COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#8C6D1F",
)
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
LINES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1.5, 1.5)),
    (0, (6, 2, 1.5, 2)),
    (0, (8, 3)),
    (0, (3, 1.5, 1, 1.5, 1, 1.5)),
    (0, (1, 3)),
)
STRONG, INK, MUTED, PALE, RULE = "#0072B2", "#222222", "#666666", "#BBBBBB", "#E6E6E6"
BACKGROUND = "#9A9A9A"
# Longest name of a term on an axis.
LONGEST_NAME = 34


class Look(NamedTuple):
    """How a component is drawn."""

    colour: str
    mark: str
    line: Any
    name: str


class Panels(np.ndarray):
    """An array of axes, which is saved as the figure that they are on."""

    @property
    def figure(self) -> Any:
        """The figure of the axes."""
        return self.ravel()[0].figure.figure  # of a part of a figure, the whole

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """Write the figure to a file, as `figure.savefig` does."""
        self.figure.savefig(*args, **kwargs)


def look(component: Any) -> Look:
    """How a component is drawn, by its number; 0 is the background."""
    if component == 0:
        # A star is as large as the marks of components; a dot would hardly be seen.
        return Look(BACKGROUND, "*", (0, (1, 2)), "noise")
    j = int(component) - 1
    # Nine marks and eight colours: no two of 72 components are alike.
    colour, mark = COLOURS[j % len(COLOURS)], MARKS[j % len(MARKS)]
    return Look(colour, mark, LINES[j % len(LINES)], f"segment {component}")


def pyplot() -> Any:
    """Matplotlib, which is imported only when something is drawn."""
    with needs("plots need", "matplotlib", "plot"):
        from matplotlib import pyplot as found
    return found


def one_axes(ax: Any, size: tuple[float, float] = (6.4, 4.0)) -> Any:
    """The axes given, or new ones."""
    if ax is None:
        return new_figure(size).subplots()
    if isinstance(ax, np.ndarray) and ax.size == 1:
        return ax.ravel()[0]
    if not hasattr(ax, "plot"):
        raise InputError(f"ax must be matplotlib axes, or None for new ones; got {ax!r}")
    return ax


def several_axes(axes: Any, count: int, size: tuple[float, float], columns: int) -> NDArray[Any]:
    """So many axes, given or new; new ones that are not needed are taken away."""
    if axes is not None:
        given = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
        if len(given) < count:
            raise InputError(f"axes has {len(given)} axes, but the plot needs {count}")
        return given[:count].view(Panels)
    rows = -(-count // columns)
    width, height = size
    return panels(new_figure((width * columns, height * rows)), count, columns)


def new_figure(size: tuple[float, float]) -> Any:
    """An empty figure, with a little room at its edges."""
    figure = pyplot().figure(figsize=size, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
    return figure


def panels(figure: Any, count: int, columns: int) -> NDArray[Any]:
    """So many axes on a figure, in rows."""
    made = figure.subplots(-(-count // columns), columns, squeeze=False).ravel()
    for spare in made[count:]:
        spare.remove()
    return np.asarray(made[:count]).view(Panels)


def dress(ax: Any, title: str, x: str, y: str, grid: str = "y") -> None:
    """Title, names of the axes, a quiet grid, no box."""
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if grid:
        ax.grid(axis=grid, color=RULE, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(PALE)
    ax.tick_params(color=PALE)


def caption(ax: Any, text: str) -> None:
    """A small note above the plot, at its right."""
    if text:
        ax.set_title(text, loc="right", fontsize=8.5, color=MUTED)


def legend(ax: Any, count: int, **options: Any) -> None:
    """A legend beside the plot, where it hides nothing."""
    if count > 1:
        place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.0}
        made = ax.legend(frameon=False, fontsize=9, handlelength=2.4, **{**place, **options})
        for handle in made.legend_handles:
            # Marks of a scatter plot are as large and as dense as those of its points.
            if hasattr(handle, "set_sizes"):
                handle.set_sizes([30])
            handle.set_alpha(1.0)


def name(term: Any) -> str:
    """A term as text on an axis: not too long, and no formula of matplotlib's."""
    text = shorten_middle(str(term))
    return text.replace("$", r"\$")


def shorten_middle(text: str) -> str:
    """A long text without its middle."""
    if len(text) <= LONGEST_NAME:
        return text
    half = (LONGEST_NAME - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def sampled(shown: int, all_rows: int) -> str:
    """What a caption says where a sample is drawn."""
    return f"a sample of {shown:,} of {all_rows:,} rows" if shown < all_rows else ""


def offsets(count: int, width: float = 0.6) -> Array:
    """Places of so many marks beside each other, around 0."""
    # Few of them lie close, so that they are seen to belong together.
    reach = min(width, 0.2 * (count - 1)) / 2
    return np.linspace(-reach, reach, count)
