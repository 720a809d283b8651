"""Print the figures: `python -m benchmarks KIND`.

`choosing`, `hostile`, `imbalanced`, `rounded`, `search`, `scale` and `torture` have options of
their own.

Threads are left as the user has them; trials in parallel hold one each.
"""

import argparse
import sys

from benchmarks import (
    bayes,
    bayes_vb,
    checkpoint,
    choosing,
    coverage,
    hostile,
    imbalanced,
    memory,
    peers,
    ppl,
    recovery,
    reference,
    reference_glm,
    rounded,
    scale,
    search,
    speed,
    torture,
)

KINDS = [
    "bayes",
    "checkpoint",
    "choosing",
    "coverage",
    "hostile",
    "imbalanced",
    "memory",
    "peers",
    "recovery",
    "reference",
    "rounded",
    "scale",
    "search",
    "speed",
    "torture",
    "all",
]


def main(arguments: list[str]) -> None:
    own = {
        "choosing": choosing.main,
        "hostile": hostile.main,
        "imbalanced": imbalanced.main,
        "rounded": rounded.main,
        "scale": scale.main,
        "search": search.main,
        "torture": torture.main,
    }
    if arguments and arguments[0] in own:
        own[arguments[0]](arguments[1:])
        return
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=KINDS)
    parser.add_argument("--trials", type=int, default=100, help="data sets a row (recovery)")
    parser.add_argument("--seeds", type=int, default=10, help="seeds a case (reference)")
    parser.add_argument(
        "--case",
        action="append",
        help="only this case, may be repeated: k,p,n (recovery), a model or a seed of chains "
        "(bayes), an overlap (coverage)",
    )
    parser.add_argument("--sets", type=int, help="data sets a line (bayes --vb, coverage)")
    parser.add_argument("--workers", type=int, default=2, help="processes (recovery)")
    parser.add_argument(
        "--all-starts",
        action="store_true",
        help="ten flexmix starts on the camera data too (peers)",
    )
    parser.add_argument(
        "--one-start", action="store_true", help="only against one start of flexmix (peers)"
    )
    parser.add_argument(
        "--ppl",
        nargs="*",
        choices=["density", "modes", "chains"],
        help="only mixtures inside PyMC models, all figures or some (bayes)",
    )
    parser.add_argument(
        "--ambiguous", action="store_true", help="only how surely replicates are matched (coverage)"
    )
    parser.add_argument("--fits", action="store_true", help="only whole fits (speed)")
    parser.add_argument(
        "--vb",
        nargs="*",
        choices=["nuts", "coverage"],
        help="only variational Bayes, all figures or some (bayes)",
    )
    parser.add_argument("--sweep", action="store_true", help="only the sweep of a graph (bayes)")
    chosen = parser.parse_args(arguments)
    if chosen.what in ("reference", "all"):
        reference.main(chosen.seeds)
        reference_glm.main(chosen.seeds)
    if chosen.what in ("speed", "all"):
        speed.main(chosen.fits)
    if chosen.what in ("bayes", "all"):
        posteriors(chosen)
    if chosen.what in ("checkpoint", "all"):
        checkpoint.main()
    if chosen.what in ("coverage", "all"):
        if not chosen.ambiguous:
            coverage.main(workers=chosen.workers)
        coverage.ambiguous(chosen.sets or coverage.SETS, chosen.workers, chosen.case)
    if chosen.what in ("memory", "all"):
        memory.main()
    if chosen.what in ("peers", "all"):
        peers.main(chosen.all_starts, chosen.one_start)
    if chosen.what in ("recovery", "all"):
        cases = [tuple(map(int, case.split(","))) for case in chosen.case or ()]
        recovery.main(chosen.trials, chosen.workers, cases)
    if chosen.what == "all":
        choosing.main([])
        hostile.main([])
        imbalanced.main([])
        rounded.main([])
        scale.main([])
        search.main([])
        torture.main([])


def posteriors(chosen: argparse.Namespace) -> None:
    """What was asked of `bayes`: all of it, or some parts."""
    some = chosen.sweep or chosen.vb is not None or chosen.ppl is not None
    if chosen.sweep:
        bayes.by_sweep()
    if not some:
        bayes.main(chosen.workers)
    if not some or chosen.vb is not None:
        sets = chosen.sets or bayes_vb.SETS
        bayes_vb.main(chosen.vb or [], chosen.case, chosen.workers, sets)
    if not some or chosen.ppl is not None:
        ppl.main(chosen.ppl or [], chosen.case, chosen.seeds, chosen.workers)


if __name__ == "__main__":
    main(sys.argv[1:])
