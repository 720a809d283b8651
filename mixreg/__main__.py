"""`python -m mixreg` is the command `mixreg`."""

from mixreg.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
