"""How the site is made: ``make docs``."""

from __future__ import annotations

import os
import re
import warnings
from typing import Any

import kernelweave

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore", message="Matplotlib is currently using agg")

project = "kernelweave"
author = "kernelweave developers"
project_copyright = "kernelweave developers, BSD-3-Clause"
version = release = kernelweave.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py", "gallery/*.zip"]
suppress_warnings = ["config.cache", "sphinx_gallery"]
myst_heading_anchors = 3
templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_title = "kernelweave"
html_context = {"default_mode": "auto"}  # light or dark as the reader's system; without it the theme complains
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 4,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"*": []}  # pages at the top; the gallery and the API keep theirs
html_show_sourcelink = False

autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_validation_checks: set[str] = set()
default_role = "code"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"and_of_two_views|__init__",
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "write_computation_times": False,
    "plot_gallery": True,
    "abort_on_example_error": True,
    "within_subsection_order": "FileNameSortKey",
}


def mend_way_back(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Lead from source code to the page of a name where it is public elsewhere than in the module it stands in."""
    if pagename.startswith("_modules/"):
        way = r'(generated/(kernelweave(?:\.\w+)*\.(\w+))\.html)#[\w.]*?\.\3((?:\.\w+)*)"'
        context["body"] = re.sub(way, r'\1#\2\4"', context["body"])


def setup(app: Any) -> None:
    """Add to how pages are made."""
    app.connect("html-page-context", mend_way_back)
