"""Settings of Sphinx for the documentation. All files of the site are local: it needs no network."""

from tcpassay._native import __version__

project = "tcpassay"
author = "the authors of tcpassay"
copyright = "the authors of tcpassay"  # noqa: A001 - the name is Sphinx's
version = release = __version__
extensions = ["myst_parser", "sphinx_copybutton"]
myst_heading_anchors = 4
myst_links_external_new_tab = True
html_theme = "furo"
html_title = f"tcpassay {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_use_index = False
html_domain_indices = False
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {"color-brand-primary": "#00558c", "color-brand-content": "#00558c"},
    "dark_css_variables": {"color-brand-primary": "#66b8e8", "color-brand-content": "#66b8e8"},
}
smartquotes = False  # `--option` keeps its hyphens
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]  # the grammar of constraints has no lexer
pygments_style = "friendly"
pygments_dark_style = "native"
copybutton_prompt_text = "$ "
