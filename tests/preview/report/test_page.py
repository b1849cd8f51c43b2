"""Tests of the page in a real browser: its content, its controls, and that it makes no requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gpu_preview.model import Cost, Operation, Status
from selenium.webdriver.common.keys import Keys

from tests.preview import hostile, reports
from tests.preview.browser import Browser
from tests.preview.reports import POOL, TEMPLATE, changed, report, resource, stack, urn


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = Browser(tmp_path_factory.mktemp("page"))
    yield found
    found.driver.quit()


def test_the_page_complains_of_nothing_and_asks_for_nothing_but_itself(browser: Browser) -> None:
    for each in (*reports.GOLDEN.values(), reports.TOO_LONG):
        browser.show(each)
        assert browser.complaints() == []
        assert browser.requests() == [(browser.folder / "report.html").as_uri()]


def test_the_policy_in_its_head_keeps_the_page_from_asking_for_anything(browser: Browser) -> None:
    browser.show(reports.NOTHING)
    browser.run("document.body.append(Object.assign(new Image(), {src: 'https://example.invalid/x.png'}))")
    browser.run("document.body.insertAdjacentHTML('beforeend', '<p onclick=\"document.title=1\" id=evil>x</p>')")
    browser.one("#evil").click()
    complaints = browser.complaints()
    assert len(complaints) == 2
    assert all("Content Security Policy directive" in each for each in complaints)
    assert browser.run("return document.title") == "Preview of a change"


def test_the_verdict_the_dangers_and_the_costs_are_read_first(browser: Browser) -> None:
    browser.show(reports.REPLACEMENT)
    assert browser.texts(".verdict") == ["2 replaced, 1 updated, 2 unchanged, 1 output differs; 1 danger"]
    assert browser.texts(".box.danger li") == [
        (
            "interrupts-jobs: The machines of pool t4 are replaced while jobs may run: each job has 10 minutes to end. "
            "Set max to 0 and wait, or merge when no job runs. t4-group at Pulumi.staging.yaml:41"
        )
    ]
    assert browser.texts(".cost tbody tr") == [
        "t4 0.00 0.60 → 1.20 (+0.60) 438.00 → 876.00 (+438.00)",
        "all pools 0.00 1.20 → 1.80 (+0.60) 876.00 → 1,314.00 (+438.00)",
    ]
    assert browser.texts(".filter") == ["± 2 replaced", "~ 1 updated", "= 2 unchanged"]


def test_the_lines_of_a_policy_are_lines(browser: Browser) -> None:
    browser.show(report(stack("staging", reports.POOL_T4, violations=reports.TWICE)))
    assert browser.texts(".box.policy li") == [
        "gate (mandatory): A pool has a gate.\nl4 has none.\nTo fix it: give it one. l4-group",
        "gate (mandatory): t4 has none. t4-group",
    ]


def test_the_table_of_several_stacks_says_what_each_may_cost(browser: Browser) -> None:
    browser.show(reports.SEVERAL)
    assert browser.texts(".stacks th") == ["stack", "what would happen", "look at", "worst month, USD"]
    assert browser.texts(".stacks tbody tr")[1] == (
        "staging 2 replaced, 1 updated, 2 unchanged, 1 output differs 1 danger 876.00 → 1,314.00 (+438.00)"
    )


def test_the_signs_of_amounts_are_explained_below_them(browser: Browser) -> None:
    least = "≥: a minimum, without items that are billed by use or have no known price."
    most = "These amounts do not include boot disks and network traffic."
    amount = reports.usd(1).model_copy(update={"at_least": True})
    dearer = stack("dev", reports.LARGER_DISK, cost=Cost(before=None, after=amount))
    browser.show(report(dearer, reports.REPLACED))
    assert browser.texts(".stacks-note, .cost-note") == [least, f"{least} {most}", most]
    browser.show(reports.SEVERAL)
    assert browser.texts(".stacks-note, .cost-note") == [most]


def test_below_the_error_of_a_base_stands_what_to_do_and_policies_only_where_some_were_asked(browser: Browser) -> None:
    error = "error: no x\n  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {gcp: [x]}"
    base = stack("a", status=Status.BASE_FAILED, error=error, policies="ran x")
    other = stack("b", reports.LARGER_DISK, policies="no policy pack was given")
    browser.show(report(base, other))
    assert browser.texts(".base-hint") == [
        "List resources that already exist in sandbox.yaml, and commit that to the base first."
    ]
    assert browser.texts("section .quiet:not(.panel *)") == ["Policies: ran x"]


def test_a_resource_says_that_it_stays_in_the_cloud_or_may_be_a_replacement(browser: Browser) -> None:
    kept = resource(TEMPLATE, "kept", Operation.DELETE, retained=True)
    gone = resource(TEMPLATE, "gone", Operation.DELETE)
    unclear = resource(TEMPLATE, "unclear", Operation.UPDATE, retained=True, may_replace=True)
    browser.show(report(stack("staging", reports.POOL_T4, kept, gone, unclear)))
    browser.node("kept").click()
    assert "it stays; the engine forgets it" in browser.texts(".panel dd")
    for name in ("gone", "unclear"):
        browser.node(name).click()
        assert browser.texts(".panel dt") == ["type", "URN"]
    assert browser.texts(".panel h3") == ["~ unclear updated, may be a replacement"]
    assert str(browser.node("unclear").get_attribute("aria-label")).endswith(", updated, may be a replacement")


def test_unchanged_resources_are_folded_until_they_are_asked_for(browser: Browser) -> None:
    browser.show(reports.REPLACEMENT)
    assert browser.names() == ["t4", "t4-template", "t4-gate", "t4-group"]
    assert browser.texts(".stub") == ["= 1 unchanged"]
    assert browser.texts(".shown") == ["4 of 5 resources shown"]
    browser.one(".stub").click()
    assert browser.names() == ["t4", "t4-template", "t4-gate", "t4-group", "t4-account"]
    assert browser.texts(".stub") == []
    assert browser.texts(".shown") == ["5 of 5 resources shown"]


def test_a_filter_hides_and_shows_one_operation(browser: Browser) -> None:
    browser.show(reports.REPLACEMENT)
    browser.one("[data-kind=replace]").click()
    assert browser.names() == ["t4", "t4-group"]
    browser.one("[data-kind=same]").click()
    assert browser.names() == ["t4", "t4-group", "t4-account"]
    browser.one("[data-kind=replace]").click()
    assert len(browser.names()) == 5
    assert [each.get_attribute("aria-pressed") for each in browser.all(".filter")] == ["true", "true", "true"]


def test_the_search_finds_names_and_types_also_of_what_is_folded(browser: Browser) -> None:
    browser.show(reports.REPLACEMENT)
    box = browser.one("input[type=search]")
    box.send_keys("Account t4")
    assert browser.names() == ["t4", "t4-account"]
    box.clear()
    box.send_keys("no such thing")
    assert browser.names() == []
    assert browser.texts(".shown") == ["0 of 5 resources shown"]


def test_a_click_on_a_resource_shows_what_changes_in_it_and_its_dependencies(browser: Browser) -> None:
    browser.show(reports.REPLACEMENT)
    browser.node("t4-gate").click()
    assert browser.texts(".panel h3") == ["± t4-gate replaced"]
    assert browser.texts(".panel .difference") == ['template forces the replacement\n- "projects/p/t4-1"\n+ (unknown)']
    assert browser.texts(".panel .link") == ["t4-template", "t4-group"]
    assert (len(browser.all(".edges .needs")), len(browser.all(".edges .needed"))) == (1, 1)
    assert browser.texts(".selected .name") == ["± t4-gate"]
    browser.all(".panel .link")[0].click()
    assert browser.texts(".panel h3") == ["± t4-template replaced"]
    browser.one(".close").click()
    assert browser.texts(".panel h3") == []
    assert browser.texts(".selected") == []


def test_a_resource_can_be_chosen_by_the_keyboard_and_its_dependencies_show_when_it_has_the_focus(
    browser: Browser,
) -> None:
    browser.show(reports.REPLACEMENT)
    browser.run("document.querySelector('[data-urn$=t4-group]').focus()")
    assert len(browser.all(".edges .needs")) == 2
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.texts(".panel h3") == ["~ t4-group updated"]


def test_a_dependency_that_is_folded_is_unfolded_when_it_is_chosen(browser: Browser) -> None:
    account = reports.ACCOUNT
    user = resource(TEMPLATE, "t4-template", Operation.UPDATE, depends_on=(account.urn, urn("x:y:Z", "elsewhere")))
    browser.show(report(stack("staging", reports.POOL_T4, account, user)))
    browser.node("t4-template").click()
    assert len(browser.all(".edges path")) == 1, "an arrow leads to the sign for what is folded"
    browser.one(".panel .link").click()
    assert browser.names() == ["t4", "t4-template", "t4-account"]
    assert browser.texts(".panel h3") == ["= t4-account unchanged"]


def test_boxes_are_inside_their_parents_boxes_and_circular_parents_are_ignored(browser: Browser) -> None:
    inner = resource(POOL, "inner", Operation.UPDATE)
    leaf = resource(TEMPLATE, "leaf", Operation.CREATE, parent=inner.urn)
    one = resource("a:b:C", "one", Operation.UPDATE, parent=urn("a:b:C", "other"))
    other = resource("a:b:C", "other", Operation.UPDATE, parent=one.urn)
    browser.show(report(stack("staging", reports.POOL_T4, inner, leaf, one, other)))
    assert sorted(browser.names()) == ["inner", "leaf", "one", "other", "t4"]
    boxes = {name: browser.node(name).find_element("css selector", "rect").rect for name in ("t4", "inner", "leaf")}
    for outside, inside in (("t4", "inner"), ("inner", "leaf")):
        a, b = boxes[outside], boxes[inside]
        assert a["x"] < b["x"]
        assert a["y"] < b["y"]
        assert b["x"] + b["width"] < a["x"] + a["width"]
        assert b["y"] + b["height"] < a["y"] + a["height"]


def test_no_text_of_the_program_becomes_more_than_text(browser: Browser) -> None:
    shown = (
        "".join(hostile.FRAGMENTS) + "</script><script>document.title='run'</script><svg onload=document.title='run'>"
    )
    browser.show(hostile.everywhere(shown))
    for each in browser.all("[data-urn]"):
        each.click()
    assert browser.complaints() == []
    assert len(browser.requests()) == 1
    assert browser.run("return document.title") == "Preview of a change"
    assert browser.run("return document.querySelectorAll('script').length") == 2
    assert browser.run("return document.querySelectorAll('img, iframe, b b, main script').length") == 0
    assert "</script><script>document.title='run'</script>" in browser.one("h2").text


def test_on_paper_every_change_is_written_out(browser: Browser) -> None:
    browser.show(reports.REPLACEMENT)
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert [each.is_displayed() for each in browser.all("details li")] == [True]
    assert browser.texts(".paper h3") == ["± t4-template replaced", "± t4-gate replaced", "~ t4-group updated"]
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.texts(".paper") == []


@pytest.mark.parametrize(("width", "dark"), [(360, False), (1300, True)])
def test_nothing_is_wider_than_the_screen(width: int, dark: bool, browser: Browser) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    long_name = resource(
        TEMPLATE, "a-name-without-end-" * 20, Operation.UPDATE, properties=(changed("x", "y" * 999, None),)
    )
    long_danger = reports.JOBS_END.model_copy(update={"text": "z" * 999})
    browser.show(report(reports.REPLACED, stack("long" * 99, reports.POOL_T4, long_name, findings=(long_danger,))))
    browser.run("document.querySelectorAll('[data-urn]')[5].dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    assert len(browser.all(".panel .difference")) == 1
    assert browser.run("return document.documentElement.scrollWidth") <= width
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.slow
def test_a_thousand_resources_are_drawn_and_found(browser: Browser) -> None:
    pools = [resource(POOL, f"pool-{pool}", parent="", component=f"pool-{pool}") for pool in range(20)]
    parts = [
        resource(TEMPLATE, f"part-{at}", list(Operation)[at % 5], parent=pools[at % 20].urn, depends_on=(pools[0].urn,))
        for at in range(980)
    ]
    browser.show(report(stack("staging", *pools, *parts)))
    browser.one("[data-kind=same]").click()
    assert browser.texts(".shown") == ["1,000 of 1,000 resources shown"]
    browser.one("input[type=search]").send_keys("part-777")
    assert browser.names() == ["pool-17", "part-777"]
