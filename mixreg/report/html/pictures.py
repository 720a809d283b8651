"""Plots as pictures inside the page, in the page's own colours.

Plots are drawn on figures of their own, so that nothing appears on a screen and no style that
was set elsewhere changes them. Colours become variables of the page, which has others in the dark.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from mixreg.errors import NotAvailableError
from mixreg.report.html.markup import Html, printable, tag
from mixreg.report.plots.style import COLOURS, INK, MUTED, PALE, pyplot

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
FONT = re.compile(r"font-family: [^;]*")
# How much larger than drawn a plot may be shown.
WIDER = 1.15
# More points than this are a picture of points: as shapes they would make a page of megabytes.
MOST_POINTS = 400
HEX = re.compile(r"#[0-9a-fA-F]{6}\b")
# Colours of the plots by the variable of the page that stands for them.
VARIABLES = {
    **{colour.lower(): f"--c{i}" for i, colour in enumerate(COLOURS, 1)},
    INK.lower(): "--ink",
    "#000000": "--ink",
    MUTED.lower(): "--muted",
    PALE.lower(): "--line",
    "#8a8a8a": "--line",
    "#9a9a9a": "--noise",
    "#e6e6e6": "--grid",
    "#eeeeee": "--grid",
    "#d9d9d9": "--grid",
    "#ffffff": "--paper",
}
# Names are text that a reader can find and copy, not outlines.
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "mixreg",
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.facecolor": "none",
    "font.size": 11,
}


@dataclass(frozen=True, slots=True)
class Panel:
    """A picture to be drawn.

    Attributes
    ----------
    size : pair of float
        Width and height, in inches.
    alt : str
        What it shows, for those who do not see it.
    """

    size: tuple[float, float]
    alt: str


def figure(
    number: int, caption: str, panels: list[Panel], draw: Callable[[NDArray[Any]], Any]
) -> Html:
    """Panels under one caption; a sentence where they cannot be drawn."""
    try:
        drawn = _drawn(panels, draw)
    except NotAvailableError as error:
        return tag("p", f"Not drawn ({caption}): {error}.", class_="quiet")
    made = [_inline(svg, panel, f"f{number}-{i}-") for i, (svg, panel) in enumerate(drawn)]
    many = "panels" if len(made) > 1 else "panel"
    return tag("figure", tag("div", *made, class_=many), tag("figcaption", caption))


def _drawn(panels: list[Panel], draw: Callable[[NDArray[Any]], Any]) -> list[tuple[str, Panel]]:
    """Each panel as SVG."""
    pyplot()
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(["default", SETTINGS], after_reset=True), warnings.catch_warnings():
        # A browser has letters that the plots' font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figures = [Figure(figsize=panel.size, layout="constrained") for panel in panels]
        axes = np.array([each.subplots() for each in figures], dtype=object)
        draw(axes)
        _flatten(axes)
        return [(_svg(each), panel) for each, panel in zip(figures, panels, strict=True)]


def _flatten(axes: NDArray[Any]) -> None:
    """Have clouds of points drawn as pixels."""
    for ax in axes:
        clouds = [c for c in ax.collections if len(c.get_offsets()) > 1]
        if sum(len(c.get_offsets()) for c in clouds) > MOST_POINTS:
            for cloud in clouds:
                cloud.set_rasterized(True)


def _svg(drawn: Any) -> str:
    out = io.StringIO()
    drawn.savefig(out, format="svg", dpi=160, transparent=True, metadata={"Date": None})
    return printable(out.getvalue())


def _inline(svg: str, panel: Panel, prefix: str) -> Html:
    """An SVG document as an element of the page, with names that no other has."""
    root = ElementTree.fromstring(svg)
    for parent in root.iter():
        for child in [c for c in parent if c.tag == f"{{{SVG}}}metadata"]:
            parent.remove(child)
        _dress(parent, prefix)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": printable(panel.alt)}
    width = panel.size[0]
    # Beside each other, panels share the line as they share their widths.
    root.attrib["style"] = (
        f"max-width: {WIDER * width:.1f}in; flex: {width:g} 1 {0.7 * width:.1f}in"
    )
    ElementTree.register_namespace("", SVG)
    return Html(ElementTree.tostring(root, encoding="unicode"))


def _dress(element: ElementTree.Element, prefix: str) -> None:
    """Own names, the page's colours and fonts."""
    found = element.attrib
    if "id" in found:
        found["id"] = prefix + found["id"]
    if f"{{{XLINK}}}href" in found:
        target = found.pop(f"{{{XLINK}}}href")
        found["href"] = f"#{prefix}{target[1:]}" if target.startswith("#") else target
    if "clip-path" in found:
        found["clip-path"] = found["clip-path"].replace("url(#", f"url(#{prefix}")
    if "style" in found:
        style = HEX.sub(_variable, found["style"]).replace("url(#", f"url(#{prefix}")
        found["style"] = FONT.sub("font-family: var(--font)", style)


def _variable(colour: re.Match[str]) -> str:
    name = VARIABLES.get(colour[0].lower())
    return colour[0] if name is None else f"var({name}, {colour[0]})"
