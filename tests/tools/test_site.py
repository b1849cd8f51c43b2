"""The documentation site in a real browser."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.support.wait import WebDriverWait

from tests.preview.browser import Browser

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("index", "start/add-a-pool", "guides/previews", "reference/pools", "adr/README", "search")
PHONE, DESKTOP = 400, 1300

pytestmark = pytest.mark.slow


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    sphinx = Path(sys.executable).parent / "sphinx-build"
    subprocess.run([sphinx, "-W", "--keep-going", "-q", "-b", "html", ROOT / "docs", folder], check=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = Browser(tmp_path_factory.mktemp("browser"))
    yield found
    found.driver.quit()


def test_no_page_asks_another_host_for_anything_or_complains(site: str, browser: Browser) -> None:
    for page in PAGES:
        browser.complaints()
        browser.requests()
        browser.driver.get(f"{site}/{page}.html")
        assert browser.complaints() == []
        asked = browser.requests()
        assert f"{site}/{page}.html" in asked
        assert [url for url in asked if not url.startswith((site, "data:"))] == []


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_no_page_is_wider_than_the_window(site: str, browser: Browser, width: int) -> None:
    # A headless window of Chromium is at least 500 pixels wide, so the page's own width is set.
    browser.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    )
    for page in PAGES:
        browser.driver.get(f"{site}/{page}.html")
        assert browser.run("return innerWidth") == width
        # Wide tables and code scroll by themselves; the text does not.
        widths = "const e = document.querySelector('.content'); return [e.clientWidth, e.scrollWidth]"
        shown, whole = browser.run(widths)
        assert 0 < whole <= shown, page


def test_a_search_finds_the_page_of_a_field(site: str, browser: Browser) -> None:
    browser.driver.get(f"{site}/search.html?q=guestAccelerator")
    # The page adds its results one by one.
    WebDriverWait(browser.driver, 20).until(lambda _: browser.all("ul.search li a[href*='reference/pools.html']"))


def test_every_section_of_the_start_page_leads_to_its_pages(site: str, browser: Browser) -> None:
    browser.driver.get(f"{site}/index.html")
    captions = browser.run("return [...document.querySelectorAll('.sidebar-tree .caption')].map(e => e.textContent)")
    assert captions == [
        "Start", "Google Cloud", "Your own programs", "Runner manager", "Kubernetes, EKS and GKE",
        "GitHub and pull requests", "GPUs", "Sandbox", "Operate", "Reference", "How it works", "Compared", "Decisions",
    ]  # fmt: skip
