"""A real, headless browser for the tests of the page."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_preview.model import Report
from gpu_preview.report import html
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

PROGRAMS = ("chromium", "chromedriver")
PACKAGES = "chromium chromium-driver"


def find(which: Callable[[str], str | None] = shutil.which) -> list[str]:
    """Return the paths of the browser and its driver. Without them, skip the test, or fail it in CI."""
    found = [which(program) for program in PROGRAMS]
    missing = [program for program, path in zip(PROGRAMS, found, strict=True) if path is None]
    if not missing:
        return [path for path in found if path]
    why = f"needs {', '.join(missing)}: apt-get install {PACKAGES}"
    if os.environ.get("CI"):
        pytest.fail(f"{why}; CI installs it in .ci/run", pytrace=False)
    pytest.skip(why)


class Browser:
    """Chromium with one open page. It records the requests and the console messages of the page."""

    def __init__(self, folder: Path) -> None:
        binary, driver = find()
        options = webdriver.ChromeOptions()
        options.binary_location = binary
        # Root has no sandbox in Chromium, and containers little shared memory.
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(argument)
        options.add_argument("--window-size=1300,1000")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.folder = folder
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))

    def show(self, report: Report) -> None:
        """Open the report's page, and drop the log of earlier pages."""
        page = self.folder / "report.html"
        page.write_text(html.render(report), encoding="utf-8")
        self.complaints()
        self.requests()
        self.driver.get(page.as_uri())

    def complaints(self) -> list[str]:
        """Return the console messages since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the requested addresses since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        [found] = self.all(selector)
        return found

    def texts(self, selector: str) -> list[str]:
        return [each.text for each in self.all(selector)]

    def node(self, name: str) -> WebElement:
        return self.one(f'[data-urn$="::{name}"]')

    def names(self) -> list[str]:
        """Return the resources in the graph."""
        return [str(each.get_attribute("data-urn")).rpartition("::")[2] for each in self.all("[data-urn]")]

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)
