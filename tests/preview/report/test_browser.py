"""Checks that CI has the browser for the tests of the page."""

from __future__ import annotations

import pytest

from tests.preview.browser import find


@pytest.mark.parametrize(("ci", "ends"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_a_browser_these_tests_fail_in_ci_and_are_skipped_elsewhere(
    ci: str, ends: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(ends, match="needs chromedriver: apt-get install chromium chromium-driver"):
        find(lambda program: None if program == "chromedriver" else f"/usr/bin/{program}")
