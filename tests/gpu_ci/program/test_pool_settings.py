"""The pools of a stack file: their shape, their kinds and names, and what two of them may not share."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu_ci.program.stack import L4, config, load, refused, told

HERE = "Pulumi.staging.yaml: gpu-ci:pools"


@pytest.mark.parametrize(
    ("pools", "text", "got"),
    [
        ("", "is missing", "nothing"),
        ({}, "has no pools", "nothing"),
        ([], "must be a map", "a list"),
        ("l4", "must be a map", "text"),
        (7, "must be a map", "7"),
    ],
)
def test_pools_that_are_none_are_reported(pools: Any, text: str, got: str) -> None:
    [problem] = refused(config(pools)).problems
    assert (problem.path, problem.text, problem.got) == ("gpu-ci:pools", text, got)
    assert (
        problem.hint.removeprefix("add one, ")
        .removeprefix("write each pool under its name, ")
        .startswith("such as l4: {kind: gce-runners, …}")
    )


def test_pools_given_as_json_text_are_read() -> None:
    text = '{"l4": {"kind": "gce-runners", "machineType": "g2-standard-8", "zones": ["us-central1-a"], "max": 1}}'
    assert [pool.name for pool in load(config(text)).pools] == ["l4"]


@pytest.mark.parametrize(("value", "got"), [(None, "nothing"), (4, "4"), ([], "a list"), ("spot", "text")])
def test_a_pool_that_is_no_map_is_reported(value: Any, got: str) -> None:
    assert told(config({"l4": L4, "t4": value})) == (
        f"{HERE}.t4: must be a map\n  got: {got}\n  expected: a kind and the fields of that kind\n"
        "  hint: such as {kind: gce-runners, …}; to remove the pool, delete its name, too"
    )


def test_an_unknown_kind_is_reported_with_the_nearest() -> None:
    assert told(config({"l4": L4 | {"kind": "gce-runer"}})) == (
        f"{HERE}.l4.kind: unknown kind of pool\n  got: 'gce-runer'\n"
        "  expected: one of cloud-build, cloud-build-gpu, eks-runners, gce-runners, gke-runners\n"
        "  hint: did you mean gce-runners"
    )


def test_a_kind_that_is_like_no_other_gets_the_page_that_lists_them() -> None:
    assert "hint: kinds and their fields are in docs/reference/pools.md" in told(config({"l4": {"kind": "fargate"}}))


def test_a_missing_kind_is_found_under_a_mistyped_key() -> None:
    without = {key: value for key, value in L4.items() if key != "kind"}
    assert told(config({"l4": without})).endswith(
        "kind: is missing\n  got: nothing\n"
        "  expected: one of cloud-build, cloud-build-gpu, eks-runners, gce-runners, gke-runners\n"
        "  hint: add kind: gce-runners"
    )
    assert told(config({"l4": without | {"knd": "gce-runners"}})).endswith(
        "  hint: did you mean kind where it says knd"
    )


@pytest.mark.parametrize(
    ("name", "path", "better"),
    [
        ("L4", ".L4", "l4"),
        ("l4_spot", ".l4_spot", "l4-spot"),
        ("4l", ".4l", "x-4l"),
        ("l4.spot", '["l4.spot"]', "l4-spot"),
    ],
)
def test_a_pool_name_that_no_resource_can_have_is_reported(name: str, path: str, better: str) -> None:
    assert told(config({name: L4})) == (
        f"{HERE}{path}: the name has a form that is not accepted\n  got: '{name}'\n"
        "  expected: lower case letters, digits and dashes, a letter first, at most 40 characters, such as l4\n"
        f"  hint: such as {better}"
    )


def test_the_proposed_name_is_itself_accepted() -> None:
    for name in ("L4", "l4_spot", "4l", "l4.spot", "-", "", "x" * 60, "Ä" * 50):
        [problem] = refused(config({name: L4})).problems
        assert [pool.name for pool in load(config({problem.hint.removeprefix("such as "): L4})).pools]


def test_a_number_in_quotes_is_reported_with_the_way_to_write_it() -> None:
    [problem] = refused(config({"l4": L4 | {"max": "4"}})).problems
    assert (problem.got, problem.hint) == ("'4'", "write it without quotes: max: 4")


@pytest.mark.parametrize("count", [4.5, True, None, [4], "many"])
def test_what_is_no_whole_number_is_reported(count: Any) -> None:
    [problem] = refused(config({"l4": L4 | {"max": count}})).problems
    assert (problem.path, problem.text) == ("gpu-ci:pools.l4.max", "must be a whole number")
    assert problem.hint == "such as max: 4"


def test_pythons_spelling_of_a_key_is_not_a_stack_files() -> None:
    assert told(config({"l4": L4 | {"disk_gib": 100}})) == (
        f"{HERE}.l4.disk_gib: unknown key\n"
        "  got: 'disk_gib'\n"
        "  expected: one of kind, machineType, guestAccelerator, zones, market, reservation, "
        "maxRunDurationSec, driver, image, torch, diskGib, diskType, localSsdCount, nicType, max, runnerLabels, "
        "waitObjectiveSec, standby, smoke, runner, secrets, ladder, priceCeilingUsd\n"
        "  hint: did you mean diskGib"
    )


def test_a_key_that_is_like_no_other_gets_the_keys_a_stack_file_may_use() -> None:
    [problem] = refused(config({"l4": L4 | {"colour": "green"}})).problems
    assert problem.expected.startswith("one of kind, machineType, guestAccelerator, zones, market, reservation, ")
    assert "subnetwork" not in problem.expected, "the program fills that in"
    assert problem.hint == "remove it"


def test_what_the_program_fills_in_is_refused() -> None:
    assert told(config({"l4": L4 | {"project": "mine"}})) == (
        f"{HERE}.l4.project: is set by gpu-ci, not in a stack file\n  hint: remove it"
    )
    assert told(config({"l4": L4 | {"labels": ["big"]}})).endswith(
        "\n  hint: labels for runs-on are runnerLabels; labels of the resources are gpu-ci:site.labels"
    )


def test_nested_settings_are_reported_with_their_whole_path_and_a_hint() -> None:
    error = refused(
        config(
            {"l4": L4 | {"smoke": {"deadlineSec": 5, "onNoCapcity": "fail"}, "diskType": "pd", "runnerLabels": ["a b"]}}
        )
    )
    assert {problem.path: problem.hint for problem in error.problems} == {
        "gpu-ci:pools.l4.diskType": "leave diskType out to get the default",
        "gpu-ci:pools.l4.runnerLabels[0]": "leave runnerLabels out to get the default",
        "gpu-ci:pools.l4.smoke.deadlineSec": "such as deadlineSec: 1200",
        "gpu-ci:pools.l4.smoke.onNoCapcity": "did you mean onNoCapacity",
    }


def test_labels_are_the_same_in_any_order_and_case() -> None:
    pools = {"a": L4 | {"runnerLabels": ["gpu", "Big"]}, "b": L4 | {"runnerLabels": ["big", "GPU"]}}
    assert told(config(pools)) == (
        f"{HERE}.b.runnerLabels: has the same runner labels as the pool a\n  got: [big, GPU]\n"
        "  expected: labels that no other pool has\n"
        "  hint: such as runnerLabels: [big, GPU, b]"
    )


def test_labels_another_pool_has_by_default_are_taken() -> None:
    pools = {"l4": L4, "m": L4 | {"runnerLabels": ["self-hosted", "gpu", "l4"]}}
    assert told(config(pools)).startswith(f"{HERE}.m.runnerLabels: has the same runner labels as the pool l4\n")
    pools = {"a": L4 | {"runnerLabels": ["self-hosted", "gpu", "l4"]}, "l4": L4}
    assert told(config(pools)) == (
        f"{HERE}.a.runnerLabels: has the same runner labels as the pool l4\n  got: [self-hosted, gpu, l4]\n"
        "  expected: labels that no other pool has\n"
        "  hint: such as runnerLabels: [self-hosted, gpu, l4, a]"
    )


def test_a_pool_with_one_label_more_is_another_pool() -> None:
    pools = {"a": L4 | {"runnerLabels": ["gpu"]}, "b": L4 | {"runnerLabels": ["gpu", "big"]}}
    assert [pool.name for pool in load(config(pools)).pools] == ["a", "b"]


def test_shared_labels_are_found_while_the_pools_have_other_mistakes() -> None:
    pools = {"a": L4 | {"runnerLabels": ["gpu"], "max": "x"}, "b": {"kind": "gce-runners", "runnerLabels": ["gpu"]}}
    paths = [problem.path.removeprefix("gpu-ci:pools.") for problem in refused(config(pools)).problems]
    assert paths == ["a.max", "b.machineType", "b.zones", "b.max", "b.runnerLabels"]


def test_a_wrong_kind_does_not_hide_the_other_mistakes() -> None:
    error = refused(
        config({"l4": L4 | {"kind": "gce-runner", "max": 0}, "m": {"kind": "fargate", "zones": "a", "image": 5}})
    )
    assert [(problem.path, problem.text) for problem in error.problems] == [
        ("gpu-ci:pools.l4.kind", "unknown kind of pool"),
        ("gpu-ci:pools.l4.max", "must be at least 1"),
        ("gpu-ci:pools.m.kind", "unknown kind of pool"),
        ("gpu-ci:pools.m.zones", "must be a list"),  # and not that machineType is missing: who knows what was meant
        ("gpu-ci:pools.m.image", "must be text"),
    ]
