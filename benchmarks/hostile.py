"""Formulas, files, names and cells that were made to do harm: each is refused or escaped.

`python -m benchmarks hostile` makes 500 cases of every kind from a seed. Each runs in a process
of its own that may take one gigabyte more than it has, and five seconds of a processor. A case
that is neither refused nor escaped, takes more, or ends in an error that is not of mixreg is
printed, and the command ends with status 1.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import math
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.peak import peak_memory
from mixreg import MixReg, compare, load
from mixreg.cli.fitting import check_formulas
from mixreg.cli.tables import write_table
from mixreg.errors import InputError
from mixreg.files.container import pack, to_json, to_npy, unpack
from mixreg.files.load import unpacked
from mixreg.files.save import packed
from mixreg.reading.writing import TableWriter

CENTRED = "cr(z, df=3, constraints='center')"
BYTES, SECONDS = 1_000_000_000, 5.0
ROWS = 2_000
SIGNS = "=+-@\t\r"
OUTPUTS = (
    "html",
    "latex",
    "compare",
    "profile",
    "report",
    "great",
    "plot",
    "csv",
    "table",
    "excel",
)


@dataclass(frozen=True)
class Case:
    """Something hostile, and what must become of it.

    Attributes
    ----------
    kind : {"formula", "python", "predict", "file", "name", "cell"}
    what : str
        A formula, a name, or what was done to a file.
    run : callable
        Does it; returns False if something came through.
    refused : bool
        Whether it must be refused; if not, it may also pass within the limits.
    """

    kind: str
    what: str
    run: Callable[[], bool | None]
    refused: bool = True


@dataclass(frozen=True)
class Outcome:
    """What became of a case: its end, a word on it, seconds, and memory in MB."""

    end: str
    told: str
    seconds: float
    memory: float


def table(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    """Data with numbers, texts, and texts that are formats."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({name: rng.normal(size=rows) for name in ("x", "z")})
    frame["n"] = rng.integers(0, 9, rows)
    frame["g"] = rng.choice(["a", "b", "%900000000d"], rows)
    frame["h"] = [f"id{i}" for i in range(rows)]
    frame["id"] = np.arange(rows)
    for number in range(26):
        frame[f"v{number}"] = rng.normal(size=rows)
        frame[f"t{number}"] = rng.choice(["a", "b"], rows)
    frame["y"] = rng.choice([-1.0, 1.0], rows) * 2 * frame.x + rng.normal(size=rows) * 0.3
    return frame


# Formulas


def large(rng: np.random.Generator) -> str:
    """A large number in one of many ways."""
    base, high = int(rng.integers(3, 12)), int(rng.integers(9, 14))
    forms = [
        f"{base}{'0' * high}",
        f"{base}**{high + 6}",
        f"10**{high}",
        f"(2**30 * {base}**9)",
        f"-(-10**{high})",
        f"I(10**{high})",
        f"1e{high}",
        f"10**{high} // {base}",
        "np.inf",
        f"(10**{high} + {base})",
        f"{base}**{base}**{base}**{base}",
        f"int(1e{high})",
        f"np.abs(10**{high})",
        f"np.power(10, {high})",
    ]
    return forms[rng.integers(len(forms))]


def splines(rng: np.random.Generator) -> str:
    """Bases of splines that fill the memory, or write beyond an array."""
    name = rng.choice(["bs", "cr", "cc"])
    much, column = large(rng), rng.choice(["x", "z", "Q('x')"])
    forms = [
        f"{name}({column}, df={much})",
        f"{name}({column}, {much})",
        f"bs({column}, df=4, degree={much})",
        f"bs({column}, knots=[0.1], degree={int(rng.integers(20, 99))})",
        f"bs({column}, 4, None, {int(rng.integers(20, 99))})",
        f"center({name}({column}, df={much}))",
        f"te(cr(x, df={int(rng.integers(40, 900))}), cr(z, df={int(rng.integers(40, 900))}))",
        f"te({', '.join(['cr(x, df=9)'] * int(rng.integers(4, 12)))})",
        f"te(te(cr(x, df=30), cr(z, df=9)), cc(x, df={int(rng.integers(20, 90))}))",
        f"te(cr(x, df={much}), z)",
        f"{name}({column}, df={int(rng.integers(2, 99))} * {much})",
        f"{name}({column}, df=n)",
        f"{name}({column}, df=np.max(id))",
        "bs(x, df=1, degree=1) + x",
        "np.where(bs(x, df=1, degree=1) > 0, x, z)",
        "np.hypot(cr(x, df=2, constraints='center'), z)",
        f"bs(x, df={int(rng.integers(2_000, 9_000))})",
    ]
    return str(forms[rng.integers(len(forms))])


def texts(rng: np.random.Generator) -> str:
    """Texts and lists that are multiplied or formatted."""
    text = rng.choice(["'abc'", "I('abc')", "g", "Q('g')", "np.where(x > 0, 'a', 'b')", "(g + g)"])
    much, width = large(rng), int(rng.integers(10**8, 10**10))
    forms = [
        f"{text} * {much}",
        f"{much} * {text}",
        f"I({text} * 10**9)",
        f"I({text}) * n * 10**9",
        f"[0] * {much}",
        f"I([0]) * {much}",
        f"I((1, 2)) * {much}",
        f"'%{width}d' % n",
        f"I('%{width}d') % n",
        f"I('%0{width}.{width}f') % x",
        "g % n",
        "Q('g') % 5",
        f"np.mod(I('%{width}d'), n)",
        "np.mod(g, n)",
        f"I(I('%{width}d') % 3 == g)",
        f"f'{{x:>{width}}}'",
        f"'{{:>{width}}}'.format(x)",
        f"g.str.ljust({width})",
    ]
    return str(forms[rng.integers(len(forms))])


def numbers(rng: np.random.Generator) -> str:
    """Whole numbers that grow without end."""
    depth, base = int(rng.integers(12, 40)), int(rng.integers(3, 99))
    high = int(rng.integers(50, 64))
    forms = [
        "np.square(" * depth + f"{base}**{high}" + ")" * depth,
        "np.square(" * depth + f"np.abs({base}**{high})" + ")" * depth,
        f"np.power({base}**{high}, 10**{depth})",
        f"np.abs({base}**{high})**10**{depth}",
        f"{base}**np.abs({base}**{high})",
        f"I({base})**I(10**{depth})",
        f"(({base}**{high})**{high})**{high}**{high}",
        "*".join([f"{base}**{high}"] * depth * 2),
        f"x * {base}**{base}**{high}",
        f"10**{depth}**{depth}",
        f"2**(2**(2**(2**{depth})))",
        f"1 << 10**{depth}",
        "np.square(" * 90 + f"{base}" + ")" * 90 + f"**{base}**{high}**{high}",
        f"np.floor({base}**{high})**{base}**{high}",
        f"np.maximum({base}**{high}, 10**30)**10**{depth}",
        f"({base}**{high})**x**{base}**{high}" + f" * {base}**{high}" * 12,
    ]
    return (
        f"x + {forms[rng.integers(len(forms))]}"
        if rng.random() < 0.5
        else forms[rng.integers(len(forms))]
    )


def expansions(rng: np.random.Generator) -> str:
    """Products, powers and differences of terms, of which there are too many."""
    many = int(rng.integers(18, 26))
    some = [f"v{i}" for i in range(many)]
    kinds = [f"t{i}" for i in range(many)]
    added, product = " + ".join(some), " * ".join(some)
    half = " * ".join(some[:11])
    forms = [
        f"({added})**{many}",
        f"({added})**{int(rng.integers(5, 9))}",
        f"({added})**10000000000",
        product,
        " * ".join(kinds),
        ":".join(kinds),
        f"({added}) * ({' + '.join(kinds)}) * ({added}) * ({' + '.join(kinds)})",
        f"({added})**2:({' + '.join(kinds)})**3",
        f"{half} * ({half})",
        f"{' * '.join(some[:12])} - ({' * '.join(some[:12])})",
        f"({added}) / ({added})**4",
        " / ".join(kinds),
        f"({product} - {some[0]})",
        "+" * int(rng.integers(2_000, 9_000)) + "x",
        "(" * int(rng.integers(2_000, 9_000)) + "x",
        "x" + " + v1" * int(rng.integers(2_000, 40_000)),
        "-" * int(rng.integers(2_000, 9_000)) + "1",
        "x + " + "v" * int(rng.integers(10_001, 250_000)),
        "I(" * int(rng.integers(200, 3_000)) + "x" + ")" * 200,
        "I(" + "-" * int(rng.integers(200, 4_000)) + "x)",
        "I(x" + " + x" * int(rng.integers(400, 2_000)) + ")",
        "C(h):C(id)",
        "C(data=h):C(data=id)",
        "C(np.round(x * 10**6)):C(np.round(z * 10**6))",
        "C(h, Poly)",
        "h * C(id)",
        "h:g:C(n)",
        "C(id) + h + C(h) + C(np.round(x * 10**6)) + h:g",
        "("
        + " + ".join(f"(v{i % 26} + t{i % 26})" for i in range(int(rng.integers(90, 200))))
        + ")**3",
    ]
    return forms[rng.integers(len(forms))]


def runs_code(rng: np.random.Generator) -> str:
    """Python that is no arithmetic."""
    call = rng.choice(["os.system('id')", "open('pwned', 'w')", "breakpoint()", "exit()"])
    forms = [
        f"__import__('os').system('{call[:2]}')",
        call,
        f"I({call})",
        f"eval({str(call)!r})",
        f"(lambda: {call})()",
        f"[v for v in [{call}]]",
        f"x if {call} else x",
        f"np.lib.npyio.os.{call}",
        "np.save('pwned', x)",
        "x.to_csv('pwned')",
        "x.__class__.__mro__",
        f"C(x, {call})",
        f"bs(x, knots=[{call}])",
        f"center({call}).x",
        "np.vectorize(print)(x)",
        "np.exp(x, out=x)",
        f"te({call}, x)",
        f"Q({call})",
        "pd.read_pickle('pwned')",
        f"{{{call}: 1}}",
        f"(x := {call})",
        f"np.where(x, {call}, x)",
    ]
    return forms[rng.integers(len(forms))]


MAKERS = (splines, texts, numbers, expansions, runs_code)


def formula(code: str, place: str) -> Callable[[], None]:
    """A formula of the command line."""

    def run() -> None:
        data = table()
        columns = frozenset(map(str, data.columns))
        if place == "concomitant":
            check_formulas("y ~ x", f"~ {code}", columns)
            MixReg.from_formula("y ~ x", data, k=2, concomitant=f"~ {code}")
        else:
            text = f"{code} ~ x" if place == "left" else f"y ~ {code}"
            check_formulas(text, None, columns)
            MixReg.from_formula(text, data, k=2)

    return run


def in_python(code: str) -> Callable[[], None]:
    """A formula that a user wrote: only what it costs is looked at."""

    def run() -> None:
        MixReg.from_formula(f"y ~ {code}", table(), k=2)

    return run


def formulas(rng: np.random.Generator, count: int) -> Iterator[Case]:
    for number in range(count):
        code = MAKERS[number % len(MAKERS)](rng)
        place = rng.choice(["right", "right", "left", "concomitant"])
        if number % len(MAKERS) in (1, 2) and rng.random() < 0.8:
            code = f"I({code})"  # or patsy reads its operators as those of terms
        yield Case("formula", f"{place}: {code}", formula(code, place))
    for _ in range(count // 5):
        code = expansions(rng)
        # A long sum is no harm in a formula of the user's own.
        yield Case("python", code, in_python(code), refused=False)


# Files


def fit_of(data: pd.DataFrame, text: str = "y ~ x + np.log(n + 1) + center(z)") -> Any:
    return MixReg.from_formula(text, data, k=2).fit(n_init=1, cov_type="none")


def forged(data: bytes, path: tuple[Any, ...], value: Any, more: dict[str, bytes] | None = None):
    """A file with something else in its spec, and its checksums right."""
    members = unpack(data)
    tree = json.loads(members["spec.json"])
    at = tree
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return pack({**members, "spec.json": to_json(tree), **(more or {})})


RIGHT = ("responses", 0, "design", "right")


def predicts(data: bytes, new: pd.DataFrame) -> Callable[[], None]:
    def run() -> None:
        unpacked(data).predict(new)

    return run


def files(rng: np.random.Generator, count: int, whole: bytes, spline: bytes) -> Iterator[Case]:
    new = table(1)
    members = unpack(spline)
    number = sum(name.startswith("arrays/") for name in members)
    outside = {"np": {"module": "numpy"}, "shift": "abc", "form": "%9000000000d", "big": 10**18}
    columns = (*RIGHT[:3], "right_columns")
    for i in range(count):
        kind = i % 5
        if kind == 0:
            code = MAKERS[int(rng.choice([0, 1, 2, 4]))](rng)
            data = forged(whole, (*RIGHT, "factors", 0, "code"), code)
            tree = json.loads(unpack(data)["spec.json"])
            known = [*tree["responses"][0]["design"]["right_columns"], "g", "id"]
            data = forged(data, columns, sorted(set(known)))
            yield Case("predict", code, predicts(data, new))
        elif kind == 1:
            code = rng.choice(
                ["x + shift * 10**10", "x + shift * big", "form % n", "I(form) % x", "shift * n",
                 "bs(x, df=big)", "x + big**big", "np.square(np.square(big**18))", "Q('shift') * 9",
                 "np.where(x > 0, form, shift) % n", "np.mod(form, n)", "(shift + shift) * big"]
            )  # fmt: skip
            data = forged(whole, (*RIGHT, "factors", 0, "code"), str(code))
            kept = {k: v for k, v in outside.items() if k == "np" or k in code}
            yield Case(
                "predict",
                f"{code} of {kept}",
                predicts(forged(data, (*RIGHT, "outside"), kept), new),
            )
        elif kind == 2:
            yield inflated(rng, spline, number, new)
        elif kind == 3:
            yield from_bytes(*strange(rng, whole))
        else:
            yield sparse(rng, whole)


def inflated(rng: np.random.Generator, spline: bytes, number: int, new: pd.DataFrame) -> Case:
    """A file whose transforms learnt more than their formula says."""
    size = int(rng.integers(20_000, 400_000))
    tree = json.loads(unpack(spline)["spec.json"])
    factors = tree["responses"][0]["design"]["right"]["factors"]
    places = [
        (f, s, name)
        for f, factor in enumerate(factors)
        for s, state in enumerate(factor["states"])
        for name in state
    ]
    f, s, name = places[rng.integers(len(places))]
    shape = [(size,), (1, size), (size, 1)][rng.integers(3)]
    array = np.sort(rng.normal(size=size)).reshape(shape)
    value: Any = {"array": number}
    if name == "_degree":
        value = int(rng.integers(12, 10**6))
    data = forged(
        spline,
        (*RIGHT, "factors", f, "states", s, name),
        value,
        {f"arrays/{number}.npy": to_npy(array)},
    )
    told = f"{name} of {factors[f]['code']} is {shape if name != '_degree' else value}"
    return Case("predict", told, predicts(data, new))


def from_bytes(told: str, data: bytes) -> Case:
    def run() -> None:
        unpacked(data)

    return Case("file", told, run)


def strange(rng: np.random.Generator, whole: bytes) -> tuple[str, bytes]:
    """A file that is not what it says."""
    members, size = unpack(whole), int(rng.integers(10**6, 10**7))
    kind = int(rng.integers(12))
    if kind >= 9:
        return in_terms(rng, whole, kind)
    if kind == 0:
        return "deep JSON", pack({**members, "spec.json": b"[" * size + b"]" * size})
    if kind == 1:
        return "much JSON", pack({**members, "spec.json": b"[" + b"[]," * size + b"0]"})
    if kind == 2:
        return "a long number", pack({**members, "spec.json": b"9" * size})
    if kind == 3:
        return "k", forged(whole, ("k",), int(rng.integers(10**6, 2**62)))
    if kind == 4:
        # Arrays without bytes, and any number of rows.
        empty = to_npy(np.zeros((1, 0))).replace(b"(1, 0), }" + b" " * 12, b"(9999999999999, 0), }")
        changed = {n: empty for n in members if n.startswith("arrays/")}
        return "arrays of no columns", pack({**members, **changed})
    if kind == 5:
        return "names", forged(whole, (*RIGHT, "names"), [f"x{i}" for i in range(size // 10)])
    if kind == 6:
        return "levels", forged(
            whole, (*RIGHT, "factors", 0, "levels"), [f"x{i}" for i in range(size // 10)]
        )
    if kind == 7:
        return "compressed", bomb(members, size * 40)
    return "one member many times", overlapping(whole, int(rng.integers(100, 9_000)))


def in_terms(rng: np.random.Generator, whole: bytes, kind: int) -> tuple[str, bytes]:
    """A file whose terms are larger than what it names."""
    many = int(rng.integers(10**5, 10**6))
    design = json.loads(unpack(whole)["spec.json"])["responses"][0]["design"]
    place = (*RIGHT, "terms", 1, "subterms", 0)
    if kind == 9:
        return "factors of a term", forged(whole, (*place, "factors"), [0] * many)
    if kind == 10:
        return "columns of a term", forged(whole, (*place, "columns"), many)
    terms = [*design["terms"][:1], "x" * many * 10, *design["terms"][2:]]
    data = forged(whole, (*RIGHT, "names"), terms)
    return "a long name", forged(data, (*RIGHT[:3], "terms"), terms)


def signed(body: bytes) -> bytes:
    """A zip whose comment is its checksum."""
    return body[:-64] + hashlib.sha256(body[:-64]).hexdigest().encode()


def bomb(members: dict[str, bytes], size: int) -> bytes:
    """A zip that is larger when it is unpacked."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**members, "arrays/999.npy": bytes(size)}.items():
            archive.writestr(name, data)
        archive.comment = b"0" * 64
    return signed(buffer.getvalue())


def overlapping(whole: bytes, times: int) -> bytes:
    """A zip whose directory names one member many times."""
    first = whole.index(b"PK\x01\x02")
    end = len(whole) - 64 - 22
    entry = whole[first : whole.index(b"PK\x01\x02", first + 4)]
    length = int.from_bytes(entry[28:30], "little")
    made = b""
    for number in range(times):
        name = f"arrays/{number}.npy".encode()
        made += (
            entry[:28]
            + len(name).to_bytes(2, "little")
            + entry[30:46]
            + name
            + entry[46 + length :]
        )
    tail = bytearray(whole[end:])
    tail[8:10] = tail[10:12] = times.to_bytes(2, "little")
    tail[12:16] = len(made).to_bytes(4, "little")
    return signed(whole[:first] + made + bytes(tail))


def sparse(rng: np.random.Generator, whole: bytes) -> Case:
    """A large file that holds nothing."""
    size, head = int(rng.integers(2, 9)) * 10**9, bool(rng.integers(2))
    tail = bool(rng.integers(2))

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "fit.mixreg"
            with open(path, "wb") as stream:
                stream.write(whole[:1000] if head else b"")
                stream.seek(size)
                stream.write(whole[-2000:] if tail else b"\0")
            load(path)

    return Case("file", f"{size:,} bytes, head {head}, tail {tail}", run)


# Names and cells

PAYLOADS = (
    "<script>alert({0})</script>",
    "</td><img src=x onerror=alert({0})>",
    '"><svg onload="alert({0})">',
    "'><iframe src=javascript:alert({0})>",
    "&lt;script&gt;{0}",
    "</style><script>{0}</script>",
    "]]><script>{0}</script>",
    "\\input{{/etc/passwd{0}}}",
    "\\write18{{id {0}}}",
    "\\immediate\\write18{{{0}}}",
    "$\\input{{x{0}}}$",
    "^^5cinput{{x{0}}}",
    "}}\\end{{tabular}}\\input{{x{0}}}",
    "%\n\\input{{x{0}}}",
    "\\catcode`@={0}",
    "=cmd|'/C calc'!A{0}",
    "+1+cmd|'/C calc'!A{0}",
    "-1+cmd|'/C calc'!A{0}",
    "@SUM(1+1)*cmd|'/C calc'!A{0}",
    "\t=1+{0}",
    "\r=1+{0}",
    '=HYPERLINK("http://x/{0}","y")',
    '=1+{0}";=1+1,=1+1',
    "$\\frac{{{0}}}$",
    "a\x00\x1b[31m\u202e{0}",
    "${{{0}}} {{{{7*7}}}} $",
)
MARKUP = re.compile(r"<(script|img|svg onload|iframe)|</style><")
COMMAND = re.compile(
    r"(?<!\\)\\(?!\\|&|%|\$|#|_|\{|\}|text|begin|end|top|mid|bottom|newline|multicolumn|par|[a-z]*rule)"
)


def named(payload: str, place: str) -> tuple[pd.DataFrame, Any]:
    """A fit with a hostile name at some place, and its data."""
    data = table(3, 60)[["x", "y", "g"]].assign(g=lambda d: np.where(d.x > 0, "a", "b"))
    text, options = "y ~ x", {}
    if place == "column":
        data = data.rename(columns={"x": payload})
        text = f"y ~ Q({payload!r})"
    elif place == "response":
        data = data.rename(columns={"y": payload})
        text = f"Q({payload!r}) ~ x"
    elif place == "level":
        data["g"] = np.where(data.g == "a", payload, "b")
        text = "y ~ x + g"
    elif place == "concomitant":
        data = data.rename(columns={"g": payload})
        options["concomitant"] = f"~ Q({payload!r})"
    else:
        data["who"] = [f"{payload}{i // 3}" for i in range(len(data))]
        data = data.rename(columns={"who": payload}) if place == "groups" else data
        options["groups"] = payload if place == "groups" else "who"
    model = MixReg.from_formula(text, data, k=2, **options)
    return data, model.fit(n_init=1, progress=False)


def name_case(payload: str, place: str, out: str) -> Callable[[], bool]:
    def run() -> bool:
        data, fit = named(payload, place)
        if out in ("html", "latex") and place != "groups":
            fit = unpacked(packed(fit.spec, fit.fitted, fit.diagnostics))
        with tempfile.TemporaryDirectory() as folder:
            return not leaks(fit, data, payload, out, Path(folder))

    return run


def leaks(fit: Any, data: pd.DataFrame, payload: str, out: str, folder: Path) -> bool:
    """Whether a name comes through as something else than text."""
    if out == "html":
        texts = [fit._repr_html_(), fit.summary().as_html()]
        return any(MARKUP.search(text) for text in texts)
    if out == "latex":
        made = fit.summary().as_latex()
        return bool(COMMAND.search(made)) or "^^" in made
    if out == "compare":
        both = compare(fit, fit, names=[payload, "other"])
        tex = both.to_latex()
        html = both.to_html() + both.to_word() + both._repr_html_()
        return bool(MARKUP.search(html) or COMMAND.search(tex)) or "^^" in tex
    if out == "great":
        both = compare(fit, fit, names=[payload, "other"]).to_great_table()
        return bool(MARKUP.search(both.as_raw_html()))
    if out == "profile":
        return bool(
            MARKUP.search(fit.profile(data)._repr_html_() + fit.classification()._repr_html_())
        )
    if out == "report":
        fit.report(folder / "r.html", data, title=payload)
        text = (folder / "r.html").read_text(encoding="utf-8")
        return bool(re.search(r"<(script>alert|img src=x|svg onload|iframe)|</style><script", text))
    if out == "plot":
        import matplotlib

        matplotlib.use("Agg")
        fit.plot().savefig(folder / "p.png")
        return False
    if out == "table":
        return cells(fit.assign(data).reset_index(), folder, ".csv")
    if out == "excel":
        return cells(fit.assign(data).reset_index(), folder, ".xlsx")
    path = folder / "labels.csv"
    fit.write_labels(path)
    return formulas_in(path) or bool_of_csv(fit.summary().as_csv())


def bool_of_csv(text: str) -> bool:
    rows = csv.reader(io.StringIO(text))
    return any(is_formula(cell.strip(" ")) for row in rows for cell in row)


def is_formula(cell: Any) -> bool:
    """Whether a spreadsheet takes a cell for a formula."""
    if not isinstance(cell, str) or len(cell) < 2 or cell[0] not in SIGNS:
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False


def formulas_in(path: Path) -> bool:
    with open(path, newline="", encoding="utf-8") as stream:
        return any(is_formula(cell) for row in csv.reader(stream) for cell in row)


def cells(frame: pd.DataFrame, folder: Path, kind: str) -> bool:
    """Whether a table that the command line writes has formulas in it."""
    path = folder / f"out{kind}"
    if kind == ".writer":
        path = folder / "out.csv"
        with TableWriter(path) as writer:
            writer.write(frame)
    else:
        write_table(frame, str(path))
    if kind != ".xlsx":
        return formulas_in(path) if kind != ".tsv" else tabbed(path)
    import openpyxl

    rows = openpyxl.load_workbook(path).active.iter_rows()
    return any(cell.data_type == "f" or is_formula(cell.value) for row in rows for cell in row)


def tabbed(path: Path) -> bool:
    with open(path, newline="", encoding="utf-8") as stream:
        rows = csv.reader(stream, delimiter="\t")
        return any(is_formula(cell) for row in rows for cell in row)


def cell_case(payload: str, kind: str, text: str) -> Callable[[], bool]:
    def run() -> bool:
        types = {"object": object, "category": "category", "string": "string"}
        frame = pd.DataFrame(
            {payload: pd.Series([payload, "a", None]).astype(types[text]), "p": [-0.5, 1, 2]}
        )
        with tempfile.TemporaryDirectory() as folder:
            try:
                return not cells(frame, Path(folder), kind)
            except ValueError as error:  # a sheet cannot hold control characters
                if "cannot be used in worksheets" not in str(error):
                    raise
                return True

    return run


def names(rng: np.random.Generator, count: int) -> Iterator[Case]:
    places = ["column", "response", "level", "concomitant", "groups", "group"]
    for i in range(count):
        payload = PAYLOADS[int(rng.integers(len(PAYLOADS)))].format(int(rng.integers(1, 99)))
        if i % 3 == 2:
            kind = str(rng.choice([".csv", ".tsv", ".xlsx", ".writer"]))
            text = str(rng.choice(["object", "category", "string"]))
            yield Case(
                "cell", f"{payload!r} as {text} to {kind}", cell_case(payload, kind, text), False
            )
        else:
            place, out = str(rng.choice(places)), OUTPUTS[int(rng.integers(len(OUTPUTS)))]
            yield Case(
                "name", f"{payload!r} as {place} to {out}", name_case(payload, place, out), False
            )


# Running


def make_cases(count: int, seed: int) -> list[Case]:
    """Cases of all kinds, equally many formulas, files and names."""
    rng, data = np.random.default_rng(seed), table()
    saved = [
        packed(fit.spec, fit.fitted, fit.diagnostics)
        for fit in (
            fit_of(data),
            fit_of(
                data,
                "y ~ bs(x, df=4) + center(v0) + standardize(n) + cr(z, df=3, constraints='center')",
            ),
        )
    ]
    made = [
        *formulas(rng, round(count * 0.4)),
        *files(rng, round(count * 0.26), *saved),
    ]
    return [*made, *names(rng, count - len(made))]


def one(case: Case) -> Outcome:
    """Run a case in a process of its own."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = context.Process(target=_child, args=(case, theirs))
        child.start()
    theirs.close()
    # Processor time counts; beyond much more of a clock, the process hangs.
    found = Outcome("too long", f"more than {SECONDS:g} s", SECONDS, 0.0)
    try:
        if ours.poll(12 * SECONDS):
            found = Outcome(*ours.recv())
    except EOFError:
        child.join()
        if child.exitcode != -signal.SIGXCPU:
            found = Outcome("crash", f"the process ended with {child.exitcode}", 0.0, 0.0)
    if child.is_alive():
        child.kill()
    child.join()
    return found


def _child(case: Case, pipe: Any) -> None:
    status = Path("/proc/self/status").read_text()
    own = int(re.search(r"VmData:\s+(\d+)", status)[1]) * 1024  # type: ignore[index]
    resource.setrlimit(resource.RLIMIT_DATA, (own + BYTES, own + BYTES))
    used = time.process_time()
    most = math.ceil(used + SECONDS)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
    warnings.simplefilter("ignore")
    before = peak_memory(anew=True)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        # What is written to be refused returns nothing.
        good = case.run()
        end, told = ("escaped" if case.kind in ("name", "cell") else "passed"), ""
        if good is False:
            end, told = "leaked", case.what
        elif case.refused:
            end = "not refused"
    except InputError as error:
        memory = isinstance(error.__cause__ or error.__context__, MemoryError)
        end, told = ("memory" if memory else "refused"), str(error)
    except MemoryError as error:
        end, told = "memory", str(error)
    except BaseException as error:
        end, told = "foreign", f"{type(error).__name__}: {error}"
    pipe.send((end, told, time.process_time() - used, peak_memory() - before))
    pipe.close()
    os._exit(0)


GOOD = ("refused", "escaped", "passed")


def run(count: int, seed: int, shown: bool = False) -> list[tuple[Case, Outcome]]:
    """Run so many cases; those that came through."""
    cases = make_cases(count, seed)
    bad, ends, slowest, largest = [], Counter(), 0.0, 0.0
    for case in cases:
        found = one(case)
        ends[case.kind, found.end] += 1
        slowest, largest = max(slowest, found.seconds), max(largest, found.memory)
        if found.end not in GOOD or found.memory > BYTES / 1e6:
            bad.append((case, found))
        if shown or found.end not in GOOD:
            told = " ".join(found.told.split())
            print(f"{found.end:12} {case.kind:8} {case.what[:90]!r}: {told[:150]}", flush=True)
    for (kind, end), number in sorted(ends.items()):
        print(f"{kind:8} {end:12} {number:5}")
    print(
        f"{len(cases)} cases, seed {seed}: {len(bad)} came through; the slowest took "
        f"{slowest:.1f} s, the largest {largest:.0f} MB"
    )
    return bad


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks hostile", description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shown", action="store_true", help="print every case, and what is said")
    asked = parser.parse_args(arguments)
    if run(asked.cases, asked.seed, asked.shown):
        raise SystemExit(1)
