"""Print the figures: `python -m benchmarks bayes|coverage|peers|recovery|reference|speed|all`."""

import argparse
import os

# One BLAS thread each, set before numpy loads: ratios compare work, not threads.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")


def main() -> None:
    from benchmarks import bayes, coverage, peers, recovery, reference, reference_glm, speed

    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    kinds = ["bayes", "coverage", "peers", "recovery", "reference", "speed", "all"]
    parser.add_argument("what", choices=kinds)
    parser.add_argument("--trials", type=int, default=100, help="data sets a row (recovery)")
    parser.add_argument("--seeds", type=int, default=10, help="seeds a case (reference)")
    parser.add_argument("--workers", type=int, default=2, help="processes (recovery)")
    parser.add_argument(
        "--all-starts",
        action="store_true",
        help="ten flexmix starts on the camera data too (peers)",
    )
    chosen = parser.parse_args()
    if chosen.what in ("reference", "all"):
        reference.main(chosen.seeds)
        reference_glm.main(chosen.seeds)
    if chosen.what in ("speed", "all"):
        speed.main()
    if chosen.what in ("bayes", "all"):
        bayes.main(chosen.workers)
    if chosen.what in ("coverage", "all"):
        coverage.main(workers=chosen.workers)
    if chosen.what in ("peers", "all"):
        peers.main(chosen.all_starts)
    if chosen.what in ("recovery", "all"):
        recovery.main(chosen.trials, chosen.workers)


if __name__ == "__main__":
    main()
