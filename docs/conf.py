"""How the documentation is built: `python -m sphinx -W docs build/docs`."""

import mixreg

project = "mixreg"
author = "the authors of mixreg"
copyright = "the authors of mixreg"
release = version = mixreg.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"mixreg {release}"
# No fonts, no scripts from elsewhere: the pages can be read offline.
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["style.css"]
# Names in the table of contents stand below their class already.
toc_object_entries_show_parents = "hide"
exclude_patterns = ["draw_figures.py"]
default_role = "literal"

# Headings can be linked to, as `page.md#heading`.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autoclass_content = "class"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
autosummary_generate = False
