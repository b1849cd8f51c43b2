"""Takes screenshots of the built site: `make site && .venv/bin/python -m tools.docs.site_pictures`. Needs Chromium."""

from __future__ import annotations

from pathlib import Path

from selenium.webdriver.support.wait import WebDriverWait

from tests.preview.browser import Browser

ROOT = Path(__file__).resolve().parents[2]
SITE, PICTURES = ROOT / ".site", ROOT / "docs" / "pictures" / "site"
PAGES = {
    "start": "index.html",
    "guide": "guides/machines.html",
    "reference": "reference/pools.html",
    "search": "search.html?q=stockout",
}
SIZES = {"desktop": (1280, 900), "phone": (400, 800)}


def main() -> None:
    """Take one screenshot of each page in each size."""
    PICTURES.mkdir(exist_ok=True)
    browser = Browser(PICTURES)
    try:
        for size, (width, height) in SIZES.items():
            browser.driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
            )
            for name, page in PAGES.items():
                browser.driver.get(f"{SITE.as_uri()}/{page}")
                if name == "search":
                    WebDriverWait(browser.driver, 20).until(lambda _: browser.all("ul.search li a"))
                browser.driver.save_screenshot(str(PICTURES / f"{name}-{size}.png"))
    finally:
        browser.driver.quit()


if __name__ == "__main__":
    main()
