"""What pyproject.toml cannot say of the package: a description whose links all lead somewhere."""

import re
from pathlib import Path

from setuptools import setup

README = Path(__file__).with_name("README.md").read_text(encoding="utf-8")

# A package index has no files of the repository: a link becomes the path it leads to.
setup(
    long_description=re.sub(r"\[[^\]]+\]\((?!https?://)([^)]+)\)", r"`\1`", README),
    long_description_content_type="text/markdown",
)
