"""Tests of the selection of policy packs and settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_preview.environment.policy_packs import (
    Pack,
    PolicySelection,
    check_policy_files,
    selected_packs,
    selection,
)
from gpu_preview.errors import PreviewError

from tests.preview.conftest import MakeVenv
from tests.preview.repository import git

PACK = "runtime: {name: python, options: {virtualenv: ../.venv-policy}}\n"


def pack(root: Path, name: str = "policies", text: str = PACK) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "PulumiPolicy.yaml").write_text(text)
    return folder


@pytest.fixture
def root(tmp_path: Path, make_venv: MakeVenv) -> Path:
    """Return the head's checkout with a pack, its environment and settings."""
    root = (tmp_path / "checkout").resolve()
    pack(root)
    git(root, "init", "-q")
    make_venv(root / ".venv-policy")
    (root / "pol.json").write_text("{}")
    return root


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = (tmp_path / "base").resolve()
    pack(base)
    (base / "pol.json").write_text("{}")
    return base


def options(*words: object) -> tuple[str, ...]:
    return tuple(map(str, words))


def ask(root: Path, base: Path, folder: str = "policies", *settings: Path) -> PolicySelection:
    return selection(selected_packs([root / folder], settings, root, base))


def test_pack_and_settings_of_the_repository_are_the_bases(root: Path, base: Path) -> None:
    held = ask(root, base, "policies", root / "pol.json")
    asked = options("--policy-pack", base / "policies", "--policy-pack-config", base / "pol.json")
    assert held == PolicySelection(asked)
    assert held.sentence("ran gpu-ci 0.1.0 (16 rules)") == "ran gpu-ci 0.1.0 (16 rules)"
    assert (base / ".venv-policy" / "pyvenv.cfg").is_file()


@pytest.mark.parametrize("tool", ["uv", "poetry"])
def test_neither_uv_nor_poetry_is_started_for_a_pack_of_the_repository(root: Path, base: Path, tool: str) -> None:
    """uv and poetry would install again without network access, and the engine waits for a pack that does not start."""
    for side in (root, base):
        (side / "policies" / "PulumiPolicy.yaml").write_text(
            f"runtime: {{name: python, options: {{toolchain: {tool}}}}}\n"
        )
    (root / ".venv-policy").rename(root / "policies" / ".venv")
    ask(root, base)
    text = (base / "policies" / "PulumiPolicy.yaml").read_text()
    environment = base / "policies" / ".venv"
    assert text == f"runtime:\n  name: python\n  options:\n    toolchain: pip\n    virtualenv: {environment}\n"
    assert (environment / "pyvenv.cfg").is_file()


def test_settings_that_the_base_lacks_are_left_out_and_reported(root: Path, base: Path) -> None:
    (base / "pol.json").unlink()
    held = ask(root, base, "policies", root / "pol.json")
    assert held.options == options("--policy-pack", base / "policies", "--policy-pack-config", "/dev/null")
    assert held.sentence("ran x") == "ran x; no settings: the base has no pol.json"


def test_a_pack_that_the_base_lacks_is_left_out_with_its_settings(root: Path, base: Path) -> None:
    pack(root, "more")
    reason = "not run: the base has no more/PulumiPolicy.yaml"
    assert ask(root, base, "more", root / "pol.json") == PolicySelection((), (reason,))


def test_a_pack_and_settings_from_elsewhere_are_taken_as_they_are_and_can_be_read(
    root: Path, base: Path, tmp_path: Path, make_venv: MakeVenv
) -> None:
    folder = pack(tmp_path / "another", "policies")
    environment = make_venv(tmp_path / "another" / ".venv-policy")
    catalog = tmp_path / "another" / "catalog"
    [packages] = environment.glob("lib/python3*/site-packages")
    (packages / "own.pth").write_text(f"{catalog}\n")
    own = tmp_path / "own.json"
    own.write_text("{}")
    [asked] = selected_packs([folder], [own], root, base)
    assert (asked.at(), asked.settings_at()) == (folder, own)
    assert asked.needed[:4] == [environment, own, folder, catalog]


def test_only_the_environment_of_the_repository_is_readable(root: Path, base: Path) -> None:
    environment = root / ".venv-policy"
    assert Pack(root / "policies", root, base, root / "pol.json").needed[0] == environment
    assert root / "policies" not in Pack(root / "policies", root, base).needed
    environment.rename(root / "moved")
    environment.symlink_to(root / "moved")
    assert Pack(root / "policies", root, base).needed == []


def test_a_link_of_the_head_at_the_path_of_the_pack_is_not_followed(root: Path, base: Path) -> None:
    pack(root, "weaker")
    (root / "policies" / "PulumiPolicy.yaml").unlink()
    (root / "policies").rmdir()
    (root / "policies").symlink_to("weaker")
    assert ask(root, base).options[1] == str(base / "policies")


def test_a_checkout_of_another_repository_below_the_workspace_is_taken_as_it_is(root: Path, base: Path) -> None:
    folder = pack(root, ".gpu-ci/policies", "runtime: python\n")
    (root / ".gpu-ci" / ".git").mkdir()
    assert ask(root, base, ".gpu-ci/policies").options[1] == str(folder)


def test_a_pack_of_the_base_is_used_even_if_the_head_has_a_submodule_there(root: Path, base: Path) -> None:
    (root / "policies" / ".git").write_text("gitdir: ../.git/modules/policies\n")
    assert ask(root, base).options[1] == str(base / "policies")


@pytest.mark.parametrize("place", ["policies", "pol.json", ".venv-policy"])
def test_a_submodule_at_the_path_of_a_pack_its_settings_or_packages_is_refused(
    root: Path, base: Path, place: str
) -> None:
    packs = selected_packs([root / "policies"], [root / "pol.json"], root, base)
    check_policy_files(packs, lambda path: "tree" if path == Path("policies") else "", "base")
    with pytest.raises(
        PreviewError,
        match=rf"^{place}: these policies are not files of the repository\n  got: a submodule at {place} in the head\n",
    ):
        check_policy_files(packs, lambda path: "commit" if path == Path(place) else "", "head")


def test_an_environment_of_the_policies_that_a_commit_has_is_refused(root: Path, base: Path) -> None:
    """A file of the head in the environment would be imported before a rule runs."""
    packs = selected_packs([root / "policies"], [], root, base)
    with pytest.raises(
        PreviewError, match=r"^\.venv-policy: the policies' environment is a part of the head's commit\n"
    ):
        check_policy_files(packs, lambda path: "tree" if path == Path(".venv-policy") else "", "head")


def test_the_environment_of_the_bases_pack_has_to_be_the_checkouts(root: Path, base: Path) -> None:
    (root / "policies" / "PulumiPolicy.yaml").unlink()
    with pytest.raises(
        PreviewError, match=r"^policies: .*\n  got: none\n  expected: \.\./\.venv-policy, as in the base"
    ):
        ask(root, base)


@pytest.mark.parametrize("folder", ["nowhere", "../nowhere"])
def test_a_pack_that_is_nowhere_is_an_error(root: Path, base: Path, folder: str) -> None:
    with pytest.raises(
        PreviewError, match=r"nowhere: is no policy pack\n  expected: a folder with a PulumiPolicy.yaml"
    ):
        ask(root, base, folder)
