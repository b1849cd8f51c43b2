"""The shell blocks of the pages that lead to the first deployment run in their order, each page in one shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, lay_out
from tests.engine.page_programs import script
from tests.sandbox_runner import cheaper
from tests.test_docs import fences

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(600)]

PAGES = ("start/new-repository", "start/new-project", "start/deploy", "guides/deploy-on-github")
ELSEWHERE = {
    "start/bootstrap": "start/deploy and guides/deploy-on-github run its blocks",
    "start/try-it": "in the checkout itself: test_whole_staging.py, test_job.py and test_gpu_build.py run its commands",
}
# What does not run, by page and by how a line begins.
LEFT_OUT = {
    ("start/bootstrap", "gcloud compute instance-groups managed list-errors GROUP"): "GROUP is one of the reader's",
    ("start/bootstrap", "gcloud org-policies describe CONSTRAINT"): "CONSTRAINT is one of the table's",
    ("start/bootstrap", "gpu-ci quota"): "of the stack of the pools: start/deploy runs it",
    ("start/bootstrap", "pulumi login 's3:"): "an address in AWS",
    ("start/bootstrap", "pulumi stack init acme-aws"): "a key in AWS",
    ("start/bootstrap", "pulumi import"): "after a destroy: tests/engine/test_bootstrap.py imports both",
    ("start/new-repository", "pulumi-sandbox up"): "tests/gpu_ci/cli/test_init.py runs it",
    ("start/new-repository", "gpu-ci job"): "tests/gpu_ci/cli/test_init.py runs it",
    ("start/new-repository", "pulumi-sandbox destroy"): "tests/gpu_ci/cli/test_init.py runs it",
    ("start/deploy", "gpu-ci doctor Pulumi.staging.yaml"): "the sandbox has no APIs that only the doctor calls",
    ("start/deploy", "gpu-ci explain"): "GitHub gives the number of a run",
}
INSTALL = "make runtime\n. .venv/bin/activate\n"
# Machines of the sandbox use the torch of this folder.
TORCH = "python3 -m venv .venv-torch && .venv-torch/bin/pip install torch numpy\n"
INIT = "gpu-ci init ../pools --stack {} --project {} --pool l4=g2-standard-8 --write\n"


def blocks(page: str) -> list[str]:
    """The blocks of commands, each command on one line."""
    texts = [
        re.sub(r"\\\n\s*", "", text) for language, text in fences(ROOT / f"docs/{page}.md") if language in ("", "sh")
    ]
    left_out = tuple(start for of, start in LEFT_OUT if of == page)
    return [
        "".join(line for line in text.splitlines(keepends=True) if not (left_out and line.startswith(left_out)))
        for text in texts
        if re.match(r"(\(?cd|gcloud|gh|gpu-ci|make|pulumi|python3) ", text)
    ]


def bootstrap(project: str = "acme-ci", stack: str = "staging", *, whole: bool = False) -> str:
    """The steps of bootstrap's page for a project and its stack, in the checkout: all, or those of "Run it"."""
    [settings] = [text for _, text in fences(ROOT / "docs/start/bootstrap.md") if "gpu-ci-bootstrap:settings:" in text]
    steps = [text for text in blocks("start/bootstrap") if whole or "pulumi login --local" in text]
    file = f"cat > bootstrap/Pulumi.acme-ci.yaml <<'END'\n{settings}END\n".replace("staging", stack)
    return f'(\ncd "$CHECKOUT"\n{file}{"".join(steps)})\n'.replace("acme-ci", project)


def script_of(page: str) -> str:
    """The blocks of a page, after what it says that the reader has."""
    text = "".join(blocks(page))
    match page:
        case "start/deploy":
            return text.replace("gcloud auth", f"{TORCH}{bootstrap(whole=True)}gcloud auth", 1)
        case "start/new-project":
            return INSTALL + text
        case "guides/deploy-on-github":
            stacks = {"staging": "acme-ci", "prod": "acme-ci-prod"}
            made = "".join(INIT.format(stack, project) + bootstrap(project, stack) for stack, project in stacks.items())
            return f"{INSTALL}{made}cd ../pools\n{text}"
    return text


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in an empty folder, next to the programs of the pages."""
    made = tmp_path / "gpu-ci"
    made.mkdir()
    lay_out(made)
    shutil.rmtree(made / ".venv")
    for name in ("infra", ".venv-torch"):  # `make runtime` installs no torch
        (made / name).unlink() if (made / name).is_symlink() else shutil.rmtree(made / name)
    shutil.copytree(ROOT / "bootstrap", made / "bootstrap", ignore=shutil.ignore_patterns("__pycache__"))
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("gcloud", "gh", "make", "pulumi", "python3", "uv"):
        script(programs / name, name)
    return made


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run_in_their_order(page: str, checkout: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    ledger.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PULUMI_", "GIT_"))} | {
        "CHECKOUT": str(checkout),
        "HOME": str(tmp_path),
        "LEDGER": str(ledger),
        "PATH": f"{tmp_path}/bin:/usr/local/bin:/usr/bin:/bin",
        "PULUMI_SANDBOX_DIR": str(tmp_path / "sandbox"),
        "PULUMI_SANDBOX_ENGINE_DIR": str(ROOT / ".engine"),
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.com",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.com",
        **cheaper(),
    }
    text = script_of(page).replace("OWNER", "acme").replace("COMMIT", "1f" * 20)
    command = ["bash", "--noprofile", "--norc", "-exo", "pipefail", "-c", text]
    done = subprocess.run(
        command, cwd=checkout, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_every_line_left_out_is_on_its_page() -> None:
    assert [key for key in LEFT_OUT if f"\n{key[1]}" not in (ROOT / f"docs/{key[0]}.md").read_text()] == []


def test_every_page_with_commands_runs() -> None:
    pages = [f"start/{file.stem}" for file in (ROOT / "docs/start").glob("*.md")]
    assert sorted(page for page in pages if blocks(page)) == sorted(
        page for page in (*PAGES, *ELSEWHERE) if page.startswith("start/")
    )
