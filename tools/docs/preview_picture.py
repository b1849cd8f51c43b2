"""Draws the pictures of a real preview in a real browser: `.venv/bin/python -m tools.docs.preview_picture`.

- docs/pictures/preview.png shows the report's page.
- docs/pictures/comment.png shows the comment on the pull request, with the style sheet that GitHub publishes.

The pull request is one of the tests' pull requests. Chromium, its driver and npm must be installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from markdown_it import MarkdownIt
from selenium import webdriver
from selenium.webdriver.common.by import By

from tests.preview import repository
from tests.preview.browser import find
from tests.preview.pull_requests import PULL_REQUESTS

PICTURES = Path(__file__).resolve().parents[2] / "docs/pictures"
WIDTH = 1240
# A comment's width on GitHub in a window of 1,280 pixels.
COMMENT_WIDTH = 860
STYLE_SHEET = "github-markdown-css@5.9.0"


def main(change: str = "market-changed") -> None:
    binary, driver = find()
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDTH},400"):
        options.add_argument(argument)
    with tempfile.TemporaryDirectory(dir=Path.home()) as name:
        folder = Path(name).resolve()
        _write_report(folder, change)
        comment = _write_comment_page(folder)
        browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        try:
            browser.get((folder / "report.html").as_uri())
            browser.find_elements(By.CSS_SELECTOR, "g.node.replace, g.node.update")[0].click()
            _save_screenshot(browser, WIDTH, PICTURES / "preview.png", hidden_height=330)
            browser.set_window_size(COMMENT_WIDTH, 400)
            browser.get(comment.as_uri())
            _save_screenshot(browser, COMMENT_WIDTH, PICTURES / "comment.png", hidden_height=145)
        finally:
            browser.quit()


def _write_report(folder: Path, change: str) -> None:
    """Preview the pull request in a new repository, and write report.html and report.md to the folder."""
    checkout = folder / "repository"
    repository.start(checkout)
    repository.provide_environment(checkout)
    [edit] = [each.edit for each in PULL_REQUESTS if each.name == change]
    repository.branch(checkout, change, edit)
    arguments = ["preview", "--base", "main", "--head", change, "--stack", "staging", "--output", str(folder)]
    subprocess.run(
        [Path(sys.executable).parent / "gpu-ci", *arguments], cwd=checkout, stdout=subprocess.DEVNULL, check=False
    )


def _write_comment_page(folder: Path) -> Path:
    """Write a page that shows report.md as a comment, and return its path."""
    subprocess.run(["npm", "pack", "--silent", STYLE_SHEET], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    [package] = folder.glob("github-markdown-css-*.tgz")
    subprocess.run(["tar", "-xzf", package.name], cwd=folder, check=True)
    text = MarkdownIt("gfm-like").render((folder / "report.md").read_text(encoding="utf-8"))
    page = folder / "comment.html"
    page.write_text(
        '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="package/github-markdown-light.css">'
        "<style>body { margin: 16px } .markdown-body { font-size: 14px; border: 1px solid #d1d9e0; "
        "border-radius: 6px; padding: 16px }</style>"
        f'<div class="markdown-body">{text}</div>',
        encoding="utf-8",
    )
    return page


def _save_screenshot(browser: webdriver.Chrome, width: int, picture: Path, *, hidden_height: int) -> None:
    """Take a picture of the whole page. `hidden_height` is the part of the window that shows nothing of it."""
    height = browser.execute_script("return document.documentElement.scrollHeight")
    browser.set_window_size(width, height + hidden_height)
    browser.execute_script("scrollTo(0, 0)")
    browser.save_screenshot(str(picture))


if __name__ == "__main__":
    main(*sys.argv[1:])
