"""The settings of Sphinx for both languages. ``build.py`` sets the language."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import chinese_search
import regard
from formulas import math_font

project = "Regard"
author = "the authors of Regard"
project_copyright = "the authors of Regard, Apache-2.0"
version = release = regard.__version__
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "formulas", "links", "live_pictures", "signatures"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
# The pages have tables and paragraphs of their own widths; smart quotes would change code in prose.
smartquotes = False
nitpicky = False
suppress_warnings = ["myst.strikethrough"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
# The members of the union would fill several lines of every signature.
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
add_module_names = False
toc_object_entries_show_parents = "hide"

pygments_style = "default"
html_theme = "pydata_sphinx_theme"
html_title = "Regard"
html_static_path = ["static", str(math_font().parent)]
templates_path = ["templates"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False
# A summary is fetched, which a browser refuses for pages that are opened as files.
html_show_search_summary = False
html_theme_options = {
    "logo": {"text": "Regard"},
    "navbar_end": ["language-switch", "theme-switcher"],
    "navbar_persistent": ["search-button"],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
}
html_context = {"default_mode": "auto"}
html_sidebars = {"index": []}

chinese_search.register()
