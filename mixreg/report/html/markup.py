"""HTML from parts: text is escaped unless it was made here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Any

# What XML and HTML cannot hold, whatever stands in a name.
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
VOID = {"meta", "link", "br", "hr", "col"}


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def printable(text: str) -> str:
    """Text without control characters."""
    return UNPRINTABLE.sub("\ufffd", text)


def html(part: Any) -> Html:
    """A part as HTML: text is escaped, HTML stays, None is nothing."""
    if part is None:
        return Html("")
    return part if isinstance(part, Html) else Html(escape(printable(str(part))))


def tag(name: str, /, *parts: Any, **attributes: Any) -> Html:
    """An element. `class_` stands for class, underscores for dashes; None is left out."""
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    given = "".join(f' {key}="{html(value)}"' for key, value in named.items() if value is not None)
    if name in VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{joined(parts)}</{name}>")


def joined(parts: Iterable[Any], between: str = "") -> Html:
    """Parts one after another."""
    return Html(between.join(html(part) for part in parts if part is not None))


def listed(items: Iterable[Any], class_: str | None = None) -> Html | None:
    """A list, if there is something in it."""
    found = [tag("li", item) for item in items]
    return tag("ul", *found, class_=class_) if found else None


def table(caption: str, head: list[Any], rows: Iterable[list[Any]], numbers: int = 1) -> Html:
    """A table that scrolls by itself where it is wide.

    Columns from `numbers` on are numbers. The first cell of a row names it.
    """
    top = [tag("th", cell, scope="col", class_=_kind(i, numbers)) for i, cell in enumerate(head)]
    body = []
    for row in rows:
        cells = [tag("td", cell, class_=_kind(i, numbers)) for i, cell in enumerate(row) if i]
        body.append(tag("tr", tag("th", row[0], scope="row"), *cells))
    made = tag("table", tag("caption", caption), tag("thead", tag("tr", *top)), tag("tbody", *body))
    return tag("div", made, class_="wide", tabindex="0", role="region", aria_label=caption)


def _kind(place: int, numbers: int) -> str | None:
    return "number" if place >= numbers else None
