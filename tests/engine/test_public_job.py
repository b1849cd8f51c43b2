"""Jobs of forks in a public repository, with the real manager and agent: an approved one, and one that attacks it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT, bring_up, copied, project_of, sandbox_settings
from tests.engine.compute_pool import GPU_CI, environment
from tests.sandbox_runner import SandboxRunner

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture(scope="module")
def public(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxRunner]:
    """Yield the stack for public repositories, deployed once."""
    config = yaml.safe_load((ROOT / "Pulumi.public.yaml").read_text())["config"]
    project = project_of(shared, "public", config, sandbox_settings())
    runner = copied(project, bring_up(project), tmp_path_factory.mktemp("public") / "a sandbox")
    yield runner
    runner.close()


def make_job(runner: SandboxRunner, marker: Path) -> tuple[int, str]:
    """Run `gpu-ci job --example public-fork`. Each job that runs a step adds a line to the file."""
    command = [GPU_CI, "job", "--stack", "staging", "--example", "public-fork", "--run", f"echo ran >> {marker}"]
    done = subprocess.run(
        command, cwd=runner.project, env=environment(runner), capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_a_job_of_a_fork_runs_after_its_approval_and_another_fork_is_cancelled(
    public: SandboxRunner, tmp_path: Path
) -> None:
    code, output = make_job(public, tmp_path / "ran")
    assert code == 0, output
    events = [line.split()[2] for line in output.splitlines() if line[6:9] == " s "]
    assert events.index("job-waits") < events.index("approved") < events.index("requested") < events.index("deleted")
    assert (events.count("requested"), events.count("cancel")) == (1, 1)
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_a_job_without_approval_that_gets_the_machine_runs_no_step(public: SandboxRunner, tmp_path: Path) -> None:
    """GitHub does not cancel the other run, which is older, so it gets the machine of the approved one."""
    public.run("world", "break", "refuse", "--on", "github:rest/cancel", "--times", "0")
    try:
        _, output = make_job(public, tmp_path / "ran")
    finally:
        public.run("world", "mend", "--all")
    assert " job-refused: example-org/open-kernels run " in output, output
    assert output.count(" requested ") == 2
    assert ": success; it waited " in output.splitlines()[-1]
    assert (tmp_path / "ran").read_text() == "ran\n"
