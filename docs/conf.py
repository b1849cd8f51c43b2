"""The documentation site: `make site` builds it into .site, strictly (docs/adr/0005-installation-and-libraries.md).

Set REPOSITORY_URL (https://github.com/OWNER/NAME) for a published site. Links to files outside docs/ lead there.
Without it they lead to this checkout.
"""

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
ROOT = DOCS.parent
REPOSITORY_URL = os.environ.get("REPOSITORY_URL", "")
_LINK = re.compile(r"(?<=\]\()(?:\.\./)+[^)#\s]+")

project = "gpu-ci"
html_title = "gpu-ci"
extensions = ["myst_parser", "sphinx_copybutton"]
html_theme = "furo"
html_static_path: list[str] = []
html_favicon = "pictures/icon.svg"
exclude_patterns = ["pictures"]
html_copy_source = False
html_show_copyright = False
html_theme_options = {"source_edit_link": f"{REPOSITORY_URL}/edit/main/docs/{{filename}}"} if REPOSITORY_URL else {}
# The anchors of headings are those that GitHub makes.
myst_heading_anchors = 4
copybutton_prompt_text = "$ "


def link_to_repository(_: Sphinx, page: str, source: list[str]) -> None:
    """Point links that leave docs/ at the repository."""
    folder = (DOCS / page).parent

    def target(match: re.Match[str]) -> str:
        file = (folder / match[0]).resolve()
        if file.is_relative_to(DOCS):
            return match[0]
        if not file.exists():
            raise FileNotFoundError(f"{page}: the link {match[0]} leads to no file")
        path = file.relative_to(ROOT)
        if REPOSITORY_URL:
            return f"{REPOSITORY_URL}/{'tree' if file.is_dir() else 'blob'}/main/{path}"
        return file.as_uri()

    source[0] = _LINK.sub(target, source[0])


def list_decisions(_: Sphinx, page: str, source: list[str]) -> None:
    """Put every decision below their overview in the navigation. GitHub would show a toctree as code."""
    if page == "adr/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n"


def setup(app: Sphinx) -> None:
    """Register what this file adds to Sphinx."""
    app.connect("source-read", link_to_repository)
    app.connect("source-read", list_decisions)
