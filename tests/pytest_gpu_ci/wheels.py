"""A folder of wheels instead of the package index, for pip without a network."""

from __future__ import annotations

import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INSTALLED_HERE = ("iniconfig", "packaging", "pluggy", "pygments", "pytest", "pytest-timeout")

# the parts of pyproject.toml that hatchling reads in this project
BACKEND = """
import tomllib, zipfile
from pathlib import Path

def build_wheel(folder, config_settings=None, metadata_directory=None):
    pyproject = tomllib.loads(Path("pyproject.toml").read_text())
    project, tool = pyproject["project"], pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]
    stem = f"{project['name'].replace('-', '_')}-{project['version']}"
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    entries = []
    for group, objects in groups.items():
        entries += [f"[{group}]", *(f"{name} = {place}" for name, place in objects.items())]
    needs = [f"Requires-Dist: {need}" for need in project["dependencies"]]
    head = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}", *needs]
    with zipfile.ZipFile(Path(folder) / f"{stem}-py3-none-any.whl", "w") as wheel:
        for package in map(Path, tool["packages"]):
            for file in package.rglob("*.*"):
                if "__pycache__" not in file.parts:
                    wheel.write(file, file.relative_to(package.parent))
        wheel.writestr(f"{stem}.dist-info/METADATA", "\\n".join(head) + "\\n")
        wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(f"{stem}.dist-info/entry_points.txt", "\\n".join(entries) + "\\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "")
    return f"{stem}-py3-none-any.whl"
"""
# It takes the options and measures nothing.
COVERAGE_OPTIONS = """
def pytest_addoption(parser):
    parser.addoption("--cov", nargs="?", const=True)
    parser.addoption("--cov-report")
"""


def wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> None:
    stem = f"{name.replace('-', '_')}-{version}"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path.replace("DIST_INFO", f"{stem}.dist-info"), text)
        archive.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{stem}.dist-info/RECORD", "")


def wheel_of_installed(folder: Path, name: str) -> None:
    """Return the files of an installed package, as they were in its wheel."""
    distribution = metadata.distribution(name)
    with zipfile.ZipFile(folder / f"{name.replace('-', '_')}-{distribution.version}-py3-none-any.whl", "w") as archive:
        for file in distribution.files or ():
            # Its scripts lie outside, and pip makes them anew.
            if ".." not in file.parts and "__pycache__" not in file.parts:
                archive.write(str(file.locate()), str(file))


def fill(folder: Path, torch_packages: Path) -> None:
    """Write the wheels that the example and its workflow install. torch is the checkout's own, coverage is empty."""
    for name in INSTALLED_HERE:
        wheel_of_installed(folder, name)
    wheel(folder, "torch", "2.99.0", {"torch_of_the_checkout.pth": f"{torch_packages}\n"})
    wheel(folder, "coverage", "7.99.0", {})
    entry = "[pytest11]\npytest_cov = coverage_options\n"
    wheel(
        folder, "pytest-cov", "7.99.0", {"coverage_options.py": COVERAGE_OPTIONS, "DIST_INFO/entry_points.txt": entry}
    )
    [backend] = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    name, _, version = backend.partition("==")
    wheel(folder, name, version, {"hatchling/__init__.py": "", "hatchling/build.py": BACKEND})
