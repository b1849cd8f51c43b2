"""Tests of a revision's environment, which has the checkout's packages and the revision's own modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_preview.environment import virtualenv
from gpu_preview.environment.packages import Packages, rejected_lines
from gpu_preview.environment.virtualenv import named_folder, problem_of, toolchain
from gpu_preview.errors import PreviewError

from tests.preview.conftest import MakeVenv
from tests.preview.repository import git

PROJECT = "name: small\nruntime:\n  name: python\n  options: {virtualenv: .venv}\n"


@pytest.fixture
def checkout(tmp_path: Path, make_venv: MakeVenv) -> Path:
    """Return a checkout with an environment that imports `mine` from the checkout and `other` from elsewhere."""
    root = tmp_path / "a checkout"
    (root / "src" / "mine").mkdir(parents=True)
    git(root, "init", "-q")
    (root / "src" / "mine" / "__init__.py").write_text("SIDE = 'checkout'\n")
    (root / "Pulumi.yaml").write_text(PROJECT)
    (root / "requirements.txt").write_text("pulumi==3.272.0\n")
    make_venv(root / ".venv")
    [packages] = (root / ".venv").glob("lib/python3*/site-packages")
    (packages / "installed.py").write_text("")
    installed(packages, "pulumi", "3.272.0")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "other.py").write_text("")
    (packages / "editable.pth").write_text(f"{root / 'src'}\n{elsewhere}\nimport sys\n# a comment\nrelative\n")
    return root


def installed(folder: Path, name: str, version: str) -> None:
    (folder / f"{name}-{version}.dist-info").mkdir()
    (folder / f"{name}-{version}.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")


def side(checkout: Path, **files: str) -> Path:
    folder = checkout.parent / "side"
    (folder / "src" / "mine").mkdir(parents=True)
    (folder / "src" / "mine" / "__init__.py").write_text("SIDE = 'side'\n")
    (folder / "Pulumi.yaml").write_text(PROJECT)
    (folder / "requirements.txt").write_text("pulumi==3.272.0\n")
    for name, text in files.items():
        (folder / name.replace("_txt", ".txt")).write_text(text)
    return folder


def ask(folder: Path, line: str) -> str:
    python = folder / ".venv" / "bin" / "python"
    done = subprocess.run([python, "-c", line], capture_output=True, text=True, check=True, cwd="/")
    return done.stdout.strip()


def test_a_side_has_the_checkouts_packages_and_its_own_modules(checkout: Path) -> None:
    folder, packages = side(checkout), Packages(checkout, checkout)
    assert not packages.why_own_packages(folder)
    packages.provide_environment(folder)
    assert ask(folder, "import mine, installed, other; print(mine.SIDE)") == "side"
    assert ask(checkout, "import mine; print(mine.SIDE)") == "checkout"


def test_a_lock_that_is_a_link_does_not_count(checkout: Path) -> None:
    folder = side(checkout)
    (folder / "requirements.txt").unlink()
    (folder / "requirements.txt").symlink_to("/etc/passwd")
    assert Packages(checkout, checkout).locks(folder) == {}


def test_an_installation_takes_wheels_from_a_list_of_ours(checkout: Path, tmp_path: Path) -> None:
    folder = side(checkout, requirements_txt="# the only one\npulumi==3.273.0 --hash=sha256:00\n")
    packages = Packages(checkout, checkout)
    assert packages.creation(folder) == [sys.executable, "-I", "-m", "venv", str(folder / ".venv")]
    assert packages.installation(folder, checkout, tmp_path) == [
        str(folder / ".venv" / "bin" / "python"), "-I", "-m", "pip", "--quiet", "--disable-pip-version-check",
        "install", "--no-cache-dir", "--only-binary", ":all:", "-r", str(tmp_path / "requirements.txt"),
    ]  # fmt: skip
    assert (tmp_path / "requirements.txt").read_text() == "# the only one\npulumi==3.273.0 --hash=sha256:00\n"


def test_a_lock_installs_nothing_that_runs_code(checkout: Path, tmp_path: Path) -> None:
    folder = side(checkout, requirements_txt="./evil\npulumi==3.273.0\n--index-url https://example.com/simple\n")
    packages = Packages(checkout, checkout)
    with pytest.raises(PreviewError) as caught:
        packages.installation(folder, checkout, tmp_path)
    assert str(caught.value) == (
        "requirements.txt: has lines that are not installed, because their installation may run code with network "
        "access\n  got: ./evil\n  got: --index-url https://example.com/simple\n"
        "  expected: names with versions, markers and hashes; and indexes that the base has too\n"
        "  hint: on a machine without secrets, name the command with --install"
    )
    assert not (tmp_path / "requirements.txt").exists()
    (checkout / "requirements.txt").write_text("--index-url https://example.com/simple\n")
    (folder / "requirements.txt").write_text("pulumi==3.273.0\n--index-url https://example.com/simple\n")
    assert packages.installation(folder, checkout, tmp_path)


def test_a_lock_of_more_than_any_size_is_refused(checkout: Path, tmp_path: Path) -> None:
    folder = side(checkout, requirements_txt="#" * (4 * 1024**2 + 1))
    with pytest.raises(PreviewError, match=r"^requirements.txt: has more than 4 MiB"):
        Packages(checkout, checkout).installation(folder, checkout, tmp_path)


def test_a_chosen_command_finds_the_environment_of_the_side(checkout: Path) -> None:
    folder, packages = side(checkout), Packages(checkout, checkout)
    assert packages.split_command("pip install -r 'a file.txt'") == ["pip", "install", "-r", "a file.txt"]
    assert packages.variables(folder, {"PATH": "/usr/bin", "SSL_CERT_FILE": "/ca.pem"}) == {
        "PATH": f"{folder / '.venv' / 'bin'}:/usr/bin",
        "SSL_CERT_FILE": "/ca.pem",
        "PIP_CERT": "/ca.pem",
        "REQUESTS_CA_BUNDLE": "/ca.pem",
        "VIRTUAL_ENV": str(folder / ".venv"),
        "UV_PROJECT_ENVIRONMENT": str(folder / ".venv"),
    }
    (folder / "Pulumi.yaml").write_text("name: small\nruntime: python\n")
    assert packages.creation(folder) == []
    assert packages.variables(folder, {"PATH": "/usr/bin"}) == {"PATH": "/usr/bin"}


@pytest.mark.parametrize("command", ["pip freeze | pip install -r /dev/stdin", "a && b", " ", "pip install 'x"])
def test_a_command_with_shell_syntax_is_refused(checkout: Path, command: str) -> None:
    with pytest.raises(PreviewError, match=r"^--install: (is not a command|no closing quotation)\n  got: "):
        Packages(checkout, checkout).split_command(command)


def test_committed_files_at_the_path_of_the_environment_are_removed(checkout: Path) -> None:
    folder = side(checkout)
    (folder / "env" / "bin").mkdir(parents=True)
    (folder / "env" / "bin" / "python").write_text("#!/bin/sh\n")
    (folder / "Pulumi.yaml").write_text(PROJECT.replace(".venv", "env"))
    Packages(checkout, checkout).clear(folder)
    assert not (folder / "env").exists()
    (folder / "Pulumi.yaml").write_text("name: small\nruntime: python\n")
    Packages(checkout, checkout).clear(folder)
    assert (folder / "Pulumi.yaml").is_file()


def theirs(checkout: Path, folder: Path) -> str:
    """Return the reason why the checkout's environment is refused. It is not readable either."""
    packages = Packages(checkout, checkout)
    with pytest.raises(PreviewError) as caught:
        packages.provide_environment(folder)
    assert packages.readable() == []
    return str(caught.value)


NOT_OURS = (
    ".venv: is part of the repository, so its code is not trusted\n"
    "  got: files that git tracks, or a Python in the repository\n"
    "  expected: a folder that git ignores, with the program's dependencies installed\n"
    "  hint: add the folder to .gitignore, and run git rm -r --cached FOLDER"
)


def test_the_environment_of_a_checkout_may_be_read(checkout: Path) -> None:
    assert Packages(checkout, checkout).readable() == [checkout / ".venv", Path(sys.base_prefix).resolve()]


def test_a_folder_that_is_no_environment_is_neither_readable_nor_used(checkout: Path) -> None:
    packages = Packages(checkout, checkout)
    (checkout / ".venv" / "pyvenv.cfg").unlink()
    assert theirs(checkout, side(checkout)) == f"{checkout / '.venv'}: is no virtual environment"
    (checkout / "Pulumi.yaml").write_text(PROJECT.replace(".venv", "nowhere"))
    assert packages.readable() == []
    (checkout / "Pulumi.yaml").write_text("name: small\nruntime: python\n")
    assert packages.readable() == []


@pytest.mark.parametrize("tracked", ["pyvenv.cfg", "lib/python{}.{}/site-packages/installed.py"])
def test_a_committed_environment_is_not_used(checkout: Path, tracked: str) -> None:
    """The checkout can be of the pull request, and the base would import its code."""
    folder = side(checkout)
    git(checkout, "add", ".venv/" + tracked.format(*sys.version_info[:2]))
    assert theirs(checkout, folder) == NOT_OURS
    with pytest.raises(PreviewError, match="is part of the repository, so its code is not trusted"):
        Packages(checkout, checkout).finish(folder)


def test_an_environment_behind_a_committed_link_is_not_used(checkout: Path) -> None:
    folder = side(checkout)
    (checkout / ".venv").rename(checkout / "real")
    (checkout / ".venv").symlink_to("real")
    git(checkout, "add", "real/pyvenv.cfg")
    assert theirs(checkout, folder) == NOT_OURS
    git(checkout, "rm", "-rq", "--cached", "real")
    (checkout / ".venv").unlink()
    (checkout / "inner").mkdir()
    (checkout / "real").rename(checkout / "inner" / ".venv")
    (checkout / "link").symlink_to("inner")
    (checkout / "Pulumi.yaml").write_text(PROJECT.replace(".venv", "link/.venv"))
    assert theirs(checkout, folder) == ".venv: its path goes through a symbolic link"


@pytest.mark.parametrize("home", ["/usr/bin", "../bin", "{checkout}/bin"])
def test_an_environment_with_a_python_of_the_repository_is_not_used(checkout: Path, home: str) -> None:
    folder, packages = side(checkout), Packages(checkout, checkout)
    (checkout / "bin").mkdir()
    (checkout / "lib" / "python3.11").mkdir(parents=True)
    for file in (checkout / "bin" / "python", checkout / "lib" / "python3.11" / "os.py"):
        file.write_text("")
    (checkout / ".venv" / "pyvenv.cfg").write_text(f"home = {home.format(checkout=checkout)}\n")
    if home == "/usr/bin":
        packages.provide_environment(folder)
        (checkout / ".venv" / "bin" / "python").unlink()
        (checkout / ".venv" / "bin" / "python").symlink_to("../../bin/python")
    assert theirs(checkout, folder) == NOT_OURS


OURS = r"^\.venv: is part of the repository, so its code is not trusted"


def test_an_environment_in_a_submodule_is_the_submodules(checkout: Path) -> None:
    """The outer repository does not track the files of a submodule."""
    (checkout / ".venv" / ".git").write_text("gitdir: ../.git/modules/sub\n")
    with pytest.raises(PreviewError, match=OURS):
        Packages(checkout, checkout).provide_environment(side(checkout))


def test_a_pth_file_that_is_large_or_not_regular_names_no_folder(checkout: Path) -> None:
    [packages] = (checkout / ".venv").glob("lib/python3*/site-packages")
    (packages / "folder.pth").mkdir()
    (packages / "endless.pth").symlink_to("/dev/zero")
    os.mkfifo(packages / "pipe.pth")
    (packages / "large.pth").write_text("/large\n" * 10_000)
    found = list(Packages(checkout, checkout).import_folders(checkout / ".venv", side(checkout)))
    assert [Path(each).name for each in found] == ["src", "elsewhere"]


FINE = """# a lock
pulumi==3.272.0 \\
    --hash=sha256:00ab \\
    --hash=sha256:11cd
pulumi-gcp[extra]>=10,<11 ; python_version < "3.13"  # why
six (>= 1.16, <2)
torch==2.9.1+cu129 ; platform_machine == 'x86_64'

grpcio
"""


def test_names_with_versions_markers_and_hashes_are_fine() -> None:
    assert rejected_lines(FINE, "") == []


REJECTED = [
    "./evil",
    "evil @ file:///somewhere/evil",
    "evil @ https://example.com/evil.whl",
    "git+https://example.com/evil.git",
    "https://example.com/evil-1-py3-none-any.whl",
    "evil.whl",
    "evil.tar.gz",
    "Evil.ZIP[extra]==1",
    "-e .",
    "--editable ./evil",
    "-r others.txt",
    "-c limits.txt",
    "--index-url https://example.com/simple",
    "--extra-index-url=https://example.com/simple",
    "--no-binary :all:",
    "--no-binary=evil",
    "--find-links ./wheels",
    "pulumi==3.272.0 --config-settings=x=y",
    "pulumi==3.272.0 --global-option=x",
    "/somewhere/evil",
    "~/evil",
    "evil==1.0+a.zip",
    "evil===$HOME",
    "evil==1; os_name == 'posix' --no-binary=evil",
    "evil==1 --hash=md5:00",
    "evil" + "!=" * 900,
    "evil==1 --hash=sha256:00--no-binary=evil",
    "--find-links https://example.com/a --no-binary :all:",
]


def test_lines_that_run_code_or_name_other_sources_are_refused() -> None:
    assert [line for line in REJECTED if rejected_lines(f"{FINE}{line}\n", "") != [line]] == []


def test_an_index_that_the_base_has_is_fine_and_nothing_else_of_it() -> None:
    base = "--extra-index-url https://example.com/torch\n-r others.txt\n./mine\n--no-binary :all:\n-f ./wheels\n"
    assert rejected_lines(base, base) == ["-r others.txt", "./mine", "--no-binary :all:", "-f ./wheels"]
    assert rejected_lines("--extra-index-url https://example.com/other\n", base) == [
        "--extra-index-url https://example.com/other"
    ]


def test_a_comment_does_not_go_on_in_the_next_line() -> None:
    """pip and uv read a `\\` at the end of a comment differently."""
    assert rejected_lines("# a comment \\\n-e .\nsix==1.17.0 # another \\\n", "") == [
        "# a comment \\", "-e .", "six==1.17.0 # another \\",
    ]  # fmt: skip


def test_a_list_without_an_end_is_refused() -> None:
    assert rejected_lines("six\n" * 100_001, "") == ["100001 lines, more than 100000"]


@pytest.fixture
def ours(tmp_path: Path, make_venv: MakeVenv) -> Path:
    return make_venv(tmp_path / "ours")


def runs(environment: Path) -> str:
    line = "import sys; print(sys.prefix, sys.prefix != sys.base_prefix)"
    python = environment / "bin" / "python"
    return subprocess.run([python, "-c", line], capture_output=True, text=True, check=True).stdout.strip()


def pip_of(environment: Path) -> str:
    line = "import pip, os; print(os.path.realpath(os.path.dirname(pip.__file__)))"
    python = environment / "bin" / "python"
    return subprocess.run([python, "-c", line], capture_output=True, text=True, check=True).stdout.strip()


def test_an_environment_without_pip_gets_pip(ours: Path, tmp_path: Path) -> None:
    """uv makes environments without it, and Pulumi's own language host lists the packages with it."""
    import pip

    [packages] = virtualenv.site_packages(ours)
    (tmp_path / "side").mkdir()
    virtualenv.create(ours, tmp_path / "side" / ".venv", [str(packages)])
    assert pip_of(tmp_path / "side" / ".venv") == str(Path(pip.__file__).resolve().parent)
    (packages / "pip").mkdir()
    (packages / "pip" / "__init__.py").touch()
    virtualenv.create(ours, tmp_path / "side" / ".venv", [str(packages)])
    assert pip_of(tmp_path / "side" / ".venv") == str(packages / "pip")


def test_nothing_of_the_environment_that_is_lent_is_started(ours: Path, tmp_path: Path) -> None:
    """The interpreter can be a file of the pull request."""
    (ours / "bin" / "python").unlink()
    (ours / "bin" / "python").write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\n")
    (ours / "bin" / "python").chmod(0o755)
    (tmp_path / "side").mkdir()
    virtualenv.create(ours, tmp_path / "side" / ".venv", [])
    assert not (tmp_path / "started").exists()


def test_committed_files_at_its_path_are_removed_and_no_link_is_followed(ours: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (victim / "lib" / "python3zz" / "site-packages").mkdir(parents=True)
    (victim / "file").write_text("precious")
    side = tmp_path / "side"
    planted = side / ".venv" / "lib" / "python3zz" / "site-packages"
    planted.mkdir(parents=True)
    (planted / "_side.pth").symlink_to(victim / "file")
    virtualenv.create(ours, side / ".venv", ["/somewhere"])
    assert not planted.exists()
    virtualenv.clear(side / ".venv")
    (side / ".venv").symlink_to(victim)
    virtualenv.create(ours, side / ".venv", ["/somewhere"])
    assert not (side / ".venv").is_symlink()
    assert (victim / "file").read_text() == "precious"
    assert list((victim / "lib" / "python3zz" / "site-packages").iterdir()) == []


def test_a_place_behind_a_link_is_refused(ours: Path, tmp_path: Path) -> None:
    (tmp_path / "side").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "side" / "infra").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PreviewError, match=r"^\.venv: its path goes through a symbolic link$"):
        virtualenv.create(ours, tmp_path / "side" / "infra" / ".venv", [])
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_import_folders_are_not_written_through_a_link(ours: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    [packages] = virtualenv.site_packages(ours)
    (packages / "_side.pth").symlink_to(victim)
    virtualenv.add(ours, ["/somewhere"])
    assert (victim.read_text(), (packages / "_side.pth").read_text()) == ("precious", "/somewhere\n")
    (tmp_path / "other").mkdir()
    packages.rename(tmp_path / "moved")
    packages.symlink_to(tmp_path / "other")
    with pytest.raises(PreviewError, match="is below a symbolic link"):
        virtualenv.add(ours, ["/somewhere"])
    assert list((tmp_path / "other").iterdir()) == []


def test_the_python_behind_an_environment_is_one_or_nothing(ours: Path, tmp_path: Path) -> None:
    """An isolated process can read the result, so a link to a user's keys must not count."""
    checkout = tmp_path / "checkout"
    assert virtualenv.installation(ours, checkout) == Path(sys.base_prefix).resolve()
    secret = tmp_path / "home" / ".aws" / "bin"
    secret.mkdir(parents=True)
    (secret / "python").write_text("")
    (ours / "bin" / "python").unlink()
    (ours / "bin" / "python").symlink_to(secret / "python")
    assert virtualenv.installation(ours, checkout) is None
    assert virtualenv.installation(tmp_path / "none", checkout) is None


@pytest.mark.parametrize("around", ["", "checkout", "checkout/inner"])
def test_a_checkout_is_no_python_and_neither_is_a_part_of_it_or_what_is_around_it(
    ours: Path, tmp_path: Path, around: str
) -> None:
    """A pull request can add the files of an installation, and all untracked files next to them would be readable."""
    prefix = tmp_path / around
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib" / "python3.11").mkdir(parents=True)
    for file in (prefix / "bin" / "python", prefix / "lib" / "python3.11" / "os.py"):
        file.write_text("")
    (ours / "bin" / "python").unlink()
    (ours / "bin" / "python").symlink_to(prefix / "bin" / "python")
    assert virtualenv.installation(ours, tmp_path / "checkout") is None
    assert virtualenv.readable(ours, tmp_path / "checkout") == [ours]
    assert virtualenv.installation(ours, tmp_path / "another" / "checkout") == (prefix if around else None)


def test_only_an_environment_in_its_own_place_may_be_seen(ours: Path, tmp_path: Path) -> None:
    """A pull request names the folder, so it can be any folder, or a link to a user's keys."""
    assert virtualenv.readable(ours, tmp_path) == [ours, Path(sys.base_prefix).resolve()]
    for checkout in (ours, ours / "a" / "checkout"):
        assert virtualenv.readable(ours, checkout) == []
    (tmp_path / "keys").mkdir()
    (tmp_path / "link").symlink_to(ours)
    (tmp_path / "loop").symlink_to("loop")
    for name in ("keys", "link", "none", "loop", "loop/.venv"):
        assert virtualenv.readable(tmp_path / name, tmp_path) == []


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        (PROJECT, ".venv"),
        (PROJECT.replace(".venv", "../.venv"), "../.venv"),
        ("runtime: python\n", ""),
        ("runtime: {name: python}\n", ""),
        ("runtime: {options: {virtualenv: /usr}}\n", ""),
        ("runtime: {options: {virtualenv: ../../x}}\n", ""),
        ("runtime: {options: {virtualenv: [a]}}\n", ""),
        ("a: [", ""),
        ("[]", ""),
        ("runtime: {options: {virtualenv: .}}\n", ""),
        ("runtime: {options: {virtualenv: ..}}\n", ""),
        ("runtime: {options: {virtualenv: ../infra/.}}\n", ""),
    ],
)
def test_the_environment_is_one_inside_the_repository(tmp_path: Path, text: str, folder: str) -> None:
    project = tmp_path / "infra"
    project.mkdir()
    (project / "Pulumi.yaml").write_text(text)
    assert named_folder(project, tmp_path) == folder


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (".venv", ""),
        ("a/../b c/ü", ""),
        ("/opt/environments/infra", ""),
        ('"a\\x01b"', "is no name of a folder\n  got: a\\u0001b"),
        ('"a\\e[31m"', "is no name of a folder\n  got: a\\u001b[31m"),
        ("x/" + "ü" * 127, ""),
        ("x/" + "ü" * 128, "is no name of a folder\n  got: x/" + "ü" * 57 + "…"),
        ("x/" * 513, "is no name of a folder\n  got: " + "x/" * 29 + "x…"),
        (".", "is the folder of the project, or a parent of it\n  got: ."),
        ("../../..", "is the folder of the project, or a parent of it\n  got: ../../.."),
    ],
)
def test_a_name_that_can_be_no_folder_is_an_error(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "Pulumi.yaml").write_text(PROJECT.replace(".venv", name))
    assert problem_of(tmp_path) == (f"Pulumi.yaml: virtualenv {why}" if why else "")
    assert (named_folder(tmp_path, tmp_path) == "") == (bool(why) or name.startswith("/"))


@pytest.mark.parametrize(
    ("options", "files", "tool", "folder"),
    [
        ("", [], "pip", ""),
        ("", ["uv.lock"], "uv", "../.venv"),
        ("", ["uv.lock", "infra/code/uv.lock"], "uv", "code/.venv"),
        ("", ["poetry.lock"], "poetry", "../.venv"),
        ("", ["uv.lock", "poetry.lock"], "uv", "../.venv"),
        ("toolchain: pip", ["uv.lock"], "pip", ""),
        ("toolchain: uv", [], "uv", ".venv"),
        ("toolchain: uv", ["pyproject.toml"], "uv", "../.venv"),
        ("toolchain: uv, virtualenv: mine", ["uv.lock"], "uv", "mine"),
        ("toolchain: poetry, virtualenv: mine", ["poetry.lock"], "poetry", "../.venv"),
        ("toolchain: conda", ["uv.lock"], "conda", ""),
        ("toolchain: 3", [], "pip", ""),
    ],
)
def test_the_environment_of_uv_and_poetry_is_next_to_their_lock(
    tmp_path: Path, options: str, files: list[str], tool: str, folder: str
) -> None:
    project = tmp_path / "infra"
    (project / "code").mkdir(parents=True)
    (project / "Pulumi.yaml").write_text(
        f"name: small\nmain: code/\nruntime: {{name: python, options: {{{options}}}}}\n"
    )
    for file in files:
        (tmp_path / file).touch()
    assert (toolchain(project), named_folder(project, tmp_path)) == (tool, folder)


@pytest.mark.parametrize("main", ["a" * 5000, "x/" * 3000, '"a\\0b"', "/", "../..", "[1]"])
def test_a_folder_of_the_program_that_can_be_none_is_no_reason_to_stop(tmp_path: Path, main: str) -> None:
    (tmp_path / "Pulumi.yaml").write_text(f"name: small\nruntime: python\nmain: {main}\n")
    assert (toolchain(tmp_path), named_folder(tmp_path, tmp_path)) == ("pip", "")
