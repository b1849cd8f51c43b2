"""Draws docs/pictures/preview.png, a real preview in a real browser: `.venv/bin/python -m tools.docs.preview_picture`.

The pull request is one of the tests' pull requests. Chromium and its driver must be installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By

from tests.preview import repository
from tests.preview.browser import find
from tests.preview.pull_requests import PULL_REQUESTS

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 1240


def main(change: str = "market-changed") -> None:
    binary, driver = find()
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDTH},400"):
        options.add_argument(argument)
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        checkout = Path(folder).resolve() / "repository"
        repository.start(checkout)
        repository.lend_environment(checkout)
        [edit] = [each.edit for each in PULL_REQUESTS if each.name == change]
        repository.branch(checkout, change, edit)
        arguments = ["preview", "--base", "main", "--head", change, "--stack", "staging", "--output", folder]
        subprocess.run(
            [Path(sys.executable).parent / "gpu-ci", *arguments], cwd=checkout, stdout=subprocess.DEVNULL, check=False
        )
        browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        try:
            browser.get((Path(folder) / "report.html").as_uri())
            browser.find_elements(By.CSS_SELECTOR, "g.node.replace, g.node.update")[0].click()
            height = browser.execute_script("return document.documentElement.scrollHeight")
            browser.set_window_size(WIDTH, height + 330)
            browser.execute_script("scrollTo(0, 0)")
            browser.save_screenshot(str(ROOT / "docs/pictures/preview.png"))
        finally:
            browser.quit()


if __name__ == "__main__":
    main(*sys.argv[1:])
