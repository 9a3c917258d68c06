"""Sphinx, for scripts/docs.sh, which lays the pages out and sets UCXX_RS_*."""

import os

project = "ucxx_rs"
author = "the ucxx_rs authors"
copyright = "the ucxx_rs authors"
version = release = os.environ["UCXX_RS_VERSION"]

extensions = ["breathe", "myst_parser"]
primary_domain = "c"
highlight_language = "text"
add_function_parentheses = False

breathe_projects = {"ucxx_rs": os.environ["UCXX_RS_XML"]}
breathe_default_project = "ucxx_rs"
breathe_domain_by_extension = {"h": "c"}
breathe_show_include = False

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
# The line of a long signature's parameters.
maximum_signature_line_length = 90

html_theme = "furo"
html_title = f"ucxx_rs {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
