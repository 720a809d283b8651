"""Print the lowest version that pyproject.toml allows of every dependency, as pip's constraints."""

import re
import tomllib
from pathlib import Path

# Extras in brackets are no part of a constraint.
LOWER = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[.*?\])?>=([0-9.]+)")


def lowest(requirements: list[str]) -> list[str]:
    """`name==version` of each requirement that has a lower bound."""
    found = (LOWER.match(one) for one in requirements)
    return ["==".join(match.groups()) for match in found if match]


def main() -> None:
    """Read the project's file, and print."""
    path = Path(__file__).parents[1] / "pyproject.toml"
    project = tomllib.loads(path.read_text())["project"]
    extras = project["optional-dependencies"].values()
    every = [*project["dependencies"], *(one for group in extras for one in group)]
    print("\n".join(lowest(every)))


if __name__ == "__main__":
    main()
