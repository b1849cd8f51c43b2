"""Properties that every answer of the solver has, over random questions; and a comparison with torch's own rule."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_smoke.compat import data, rules, wheels
from gpu_smoke.data.gpus import GPUS
from gpu_smoke.solver.answer import answer
from gpu_smoke.solver.question import Question
from hypothesis import given
from hypothesis import strategies as st

DEVICES = sorted({capability for arch in data.ARCHS for capability in arch.capabilities} | {87, 101, 110, 121})
MACHINES = [*data.RELEASES]
TORCHES = sorted({str(wheel) for machine in MACHINES for wheel in wheels.every(machine)})

# The driver branch released with the first toolkit for each capability (NVIDIA's release notes of CUDA 12.8). The
# second table has cards with a later first branch; compat/data.py has its sources.
FIRST = {"6.0": 367, "7.0": 384, "7.5": 410, "8.0": 450, "8.6": 455, "8.9": 520, "9.0": 520, "10.0": 570, "12.0": 570}
FIRST_OF_CARD = {"l4": 525, "h100-pcie": 525, "h100-sxm": 525, "h200-sxm": 550, "rtx-pro-6000-se": 575}
CAPABILITIES = [f"{device // 10}.{device % 10}" for device in DEVICES]

questions = st.builds(
    Question,
    capability=st.sampled_from(CAPABILITIES),
    driver=st.sampled_from(["", "340", "390", "450", "520", "999", "580.159.03", *map(str, data.BRANCHES)]),
    torch=st.sampled_from(["", "2.9.1", "2.15.0", "1.0.0", "2.99.0+cu150", "2.9.1+cpu", *TORCHES]),
    module=st.sampled_from(["", data.OPEN, data.PROPRIETARY]),
    machine=st.sampled_from(MACHINES),
    python=st.sampled_from([None, (3, 8), (3, 12), (3, 14)]),
)
questions |= st.builds(
    lambda gpu, question: replace(question, gpu=gpu, capability=GPUS[gpu].capability),
    st.sampled_from([*GPUS]),
    questions,
)


@given(questions)
def test_every_recommended_combination_works(question: Question) -> None:
    for way in answer(question).ways:
        assert rules.nearest_branches(way.driver_branch) == (), "the branch is in the tables"
        again = rules.check(
            question.capability,
            way.driver_branch,
            way.torch,
            machine=question.machine,
            module=way.module or question.module or None,
            python=question.python,
            card=question.card,
        )
        assert again.works, (question, way, again.problems)


@given(questions)
def test_no_recommended_driver_is_older_than_the_gpu(question: Question) -> None:
    first = max(FIRST.get(question.capability, 0), FIRST_OF_CARD.get(question.gpu, 0))
    assert all(way.driver_branch >= first for way in answer(question).ways), question


@given(questions)
def test_a_combination_that_works_is_its_own_way_and_the_chosen_values_work_if_any_do(question: Question) -> None:
    found = answer(question)
    if found.works:
        [way] = found.ways
        assert way.driver_branch == rules.branch_of(found.driver)
        assert way.torch == str(wheels.parse_wheel(found.torch, question.machine))
    elif not question.driver and not question.torch and not question.module:
        assert found.ways == ()


@pytest.mark.slow
@given(questions)
def test_a_row_of_the_table_has_the_result_of_its_wheel(question: Question) -> None:
    found = answer(question)
    assert bool(found.rows) is not bool(question.torch)
    unknown = [problem.text for problem in found.problems if problem.rule == "driver.unknown-branch"]
    for row in found.rows:
        alone = rules.check(
            question.capability,
            found.driver,
            row.torch,
            machine=question.machine,
            python=question.python,
            card=question.card,
        )
        texts = tuple(problem.text for problem in alone.problems)
        assert row.works is (alone.works and not unknown)
        assert row.reasons in (texts, (*unknown, *texts))


# A program that prints the answer of the installed torch for code of each capability on each device.
ASK = """\
import json, sys, warnings
import torch
from torch.cuda import PYTORCH_RELEASES_CODE_CC, _code_compatible_with_device
warnings.simplefilter("ignore")
devices, builds = json.loads(sys.argv[1])
out = {}
for cuda, codes in builds.items():
    torch.version.cuda = cuda
    out[cuda] = {code: [d for d in devices if _code_compatible_with_device(d, code)] for code in codes}
lists = {cuda: {arch: sorted(found) for arch, found in row.items()} for cuda, row in PYTORCH_RELEASES_CODE_CC.items()}
print(json.dumps({"runs": out, "lists": lists, "version": torch.__version__}))
"""


@pytest.fixture(scope="module")
def torch_says(torch_python: Path) -> dict[str, Any]:
    builds: dict[str, list[int]] = {}
    for machine in MACHINES:
        for wheel in wheels.every(machine):
            major, minor = wheel.cuda or (0, 0)
            codes = set(builds.get(f"{major}.{minor}", [])) | set(wheels.kernels(wheel, machine) or ())
            builds[f"{major}.{minor}"] = sorted(codes)
    done = subprocess.run(
        [torch_python, "-c", ASK, json.dumps([DEVICES, builds])],
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_code_runs_on_the_devices_that_torch_names(torch_says: dict[str, Any]) -> None:
    count = 0
    for cuda, codes in torch_says["runs"].items():
        major, minor = map(int, cuda.split("."))
        for code, expected in codes.items():
            assert [d for d in DEVICES if rules.runs(int(code), d, (major, minor))] == expected, (cuda, code)
            count += len(DEVICES)
    assert count == len(DEVICES) * sum(map(len, torch_says["runs"].values())) > 1000


@pytest.mark.slow
def test_a_wheel_is_refused_for_a_gpu_exactly_if_torch_finds_no_kernels(
    torch_says: dict[str, Any],
) -> None:
    for machine in MACHINES:
        for wheel in wheels.every(machine):
            assert wheel.cuda
            runs = torch_says["runs"][".".join(map(str, wheel.cuda))]
            for device in DEVICES:
                has = any(device in runs[str(code)] for code in wheels.kernels(wheel, machine) or ())
                found = rules.check(f"{device // 10}.{device % 10}", torch=str(wheel), machine=machine)
                assert ("torch.no-kernels" in {problem.rule for problem in found.problems}) is not has, (wheel, device)


@pytest.mark.slow
def test_the_lists_of_the_installed_torch_are_those_of_the_table(torch_says: dict[str, Any]) -> None:
    release = torch_says["version"].rpartition(".")[0]
    names = {"x86_64": "x86_64", "arm64": "aarch64"}
    compared = 0
    for machine, rows in data.RELEASES.items():
        for build, codes in rows[release].builds.items() if release in rows else ():
            major, minor = wheels.Wheel(release, release, build).cuda or (0, 0)
            assert sorted(codes) == torch_says["lists"][f"{major}.{minor}"][names[machine]], (machine, build)
            compared += 1
    assert compared
