"""The boot script, run by bash against a metadata server: whatever goes wrong, one verdict comes out."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.gcp import boot

SAYS = "import sys; open(sys.argv[sys.argv.index('--termination-log') + 1], 'w').write({message!r}); sys.exit({code})"
NEEDED = ("mktemp", "base64", "tr", "cat", "rm", "head", "grep", "tail", "tee", "timeout")


class Metadata(ThreadingHTTPServer):
    """A machine's metadata server."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.attributes: dict[str, str] = {}
        self.published: list[tuple[str, bytes]] = []


class Handler(BaseHTTPRequestHandler):
    server: Metadata

    def do_GET(self) -> None:
        value = self.server.attributes.get(self.path.removeprefix("/computeMetadata/v1/instance/attributes/"))
        self._answer(404 if value is None else 200, (value or "").encode())

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.published.append((self.path, body))
        self._answer(200, b"")

    def _answer(self, status: int, body: bytes) -> None:
        allowed = self.headers.get("Metadata-Flavor") == "Google"
        self.send_response(status if allowed else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass


class Boot:
    """A machine that boots once."""

    def __init__(self, folder: Path, metadata: Metadata) -> None:
        self.folder = folder
        self.metadata = metadata
        self.tools = folder / "tools"
        self.tools.mkdir()
        self._tool("shutdown", 'echo "SHUTDOWN $*"')
        self._tool("sleep", "true")
        self.torch = folder / "torch"
        self.torch.mkdir()
        (self.torch / "torch.py").touch()
        self.path = f"{self.tools}:{os.environ['PATH']}"
        self.is_google = True

    def only(self, *tools: str) -> None:
        """Leave the machine nothing but the basics, and Python under these names."""
        for tool in NEEDED:
            (self.tools / tool).symlink_to(str(shutil.which(tool)))
        for tool in tools:
            self._tool(tool, f'exec "{sys.executable}" "$@"')
        self.path = str(self.tools)

    def run(self, check: str = "", **attributes: str) -> tuple[dict[str, Any], str]:
        """The published verdict, and what went to the serial port."""
        self.metadata.attributes = {
            "gpu-ci-role": "check",
            "gpu-smoke-pyz": _packed(check),
            "gpu-smoke-args": "--pool\nl 4\n--expect-gpus\n1",
            **{key.replace("_", "-"): value for key, value in attributes.items()},
        }
        environment = {
            "PATH": self.path,
            "GCE_METADATA_HOST": f"127.0.0.1:{self.metadata.server_port}",
            "PYTHONPATH": str(self.torch),
            **({"GPU_CI_STATE": str(self.folder / "state")} if self.is_google else {}),
        }
        script = self.folder / "boot.sh"
        script.write_text(boot.script())
        done = subprocess.run(
            [str(shutil.which("bash")), str(script)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        ((path, body),) = self.metadata.published
        assert path == "/computeMetadata/v1/instance/guest-attributes/gpu-smoke/verdict"
        assert len(body) <= 1024
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("SMOKE-RESULT ")]
        assert base64.b64decode(line.removeprefix("SMOKE-RESULT ")) == body
        verdict: dict[str, Any] = json.loads(body)
        return verdict, done.stdout + done.stderr

    def _tool(self, name: str, text: str) -> None:
        tool = self.tools / name
        tool.write_text(f"#!{shutil.which('bash')}\n{text}\n")
        tool.chmod(0o755)


def _packed(source: str) -> str:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", source)
    return base64.b64encode(buffer.getvalue()).decode()


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    metadata = Metadata()
    thread = threading.Thread(target=metadata.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield metadata
    metadata.shutdown()
    thread.join()
    metadata.server_close()


@pytest.fixture
def machine(tmp_path: Path, metadata: Metadata) -> Boot:
    return Boot(tmp_path, metadata)


def says(message: str, code: int = 0) -> str:
    return SAYS.format(message=message, code=code)


def test_the_script_is_what_reviewers_saw(golden: Callable[[str, str], None]) -> None:
    golden("boot/boot.sh", boot.script())


def test_a_pass_is_published_and_the_check_machine_switches_itself_off(machine: Boot) -> None:
    verdict, serial = machine.run(says("1 x NVIDIA L4 computes\nand more"))
    assert verdict == {"verdict": "pass", "exit_code": 0, "summary": "1 x NVIDIA L4 computes"}
    assert "SHUTDOWN -h now" in serial


def test_a_machine_of_the_pool_that_passes_stays(machine: Boot) -> None:
    verdict, serial = machine.run(says("fine"), gpu_ci_role="")
    assert verdict["verdict"] == "pass"
    assert "SHUTDOWN" not in serial


def test_a_machine_of_the_pool_that_fails_switches_itself_off(machine: Boot) -> None:
    verdict, serial = machine.run(says("GPU 0: wrong numbers", 1), gpu_ci_role="")
    assert verdict == {"verdict": "fail", "exit_code": 1, "summary": "GPU 0: wrong numbers"}
    assert "SHUTDOWN -h now" in serial


def test_the_checks_words_survive_quotes_backslashes_control_characters_and_other_scripts(machine: Boot) -> None:
    verdict, _ = machine.run(says('a "b" \\n c\\ \t\x1b[31m é 漢', 1))
    assert verdict["summary"] == 'a "b" \\n c\\  \x20[31m é 漢'


@pytest.mark.parametrize("filler", ["x", '"', "\\", "漢", "é\\"])
def test_a_long_story_is_cut_to_what_fits_and_stays_readable(machine: Boot, filler: str) -> None:
    verdict, _ = machine.run(says("start " + filler * 3000, 1))
    assert verdict["summary"].startswith("start " + filler * 50)
    assert "\ufffd" not in verdict["summary"]


def test_a_check_that_crashes_is_a_fail_with_its_last_line(machine: Boot) -> None:
    verdict, _ = machine.run("raise RuntimeError('CUDA error 999')")
    assert verdict == {
        "verdict": "fail",
        "exit_code": 1,
        "summary": "the check ended with code 1 and no message; it last printed: RuntimeError: CUDA error 999",
    }


def test_a_check_that_ends_well_but_says_nothing_has_proven_nothing(machine: Boot) -> None:
    verdict, _ = machine.run("pass")
    assert (verdict["verdict"], verdict["summary"]) == ("fail", "the check ended with code 0 and no message")


def test_a_check_that_hangs_is_ended_at_the_deadline(machine: Boot) -> None:
    """A stand-in for timeout ends the check after a second: a deadline so short may pass before the check begins."""
    left, timeout = machine.folder / "left", shutil.which("timeout")
    machine._tool(
        "timeout",
        f"""case "$*" in
          *gpu_smoke.pyz*) echo "$3" >"{left}"; exec "{timeout}" "$1" "$2" 1 "${{@:4}}" ;;
          *) exec "{timeout}" "$@" ;;
        esac""",
    )
    verdict, _ = machine.run("import time; time.sleep(3600)", gpu_smoke_deadline_sec="900")
    assert verdict == {"verdict": "fail", "exit_code": 4, "summary": "the check did not end within 900 s of the boot"}
    assert 840 <= int(left.read_text()) <= 900, "the whole boot has 60 s here"


def test_a_check_that_did_not_arrive_is_a_fail(machine: Boot) -> None:
    verdict, _ = machine.run(gpu_smoke_pyz="!!!")
    expected = "the check did not arrive: the machine's metadata has no readable gpu-smoke-pyz"
    assert (verdict["verdict"], verdict["exit_code"], verdict["summary"]) == ("fail", 2, expected)


@pytest.mark.parametrize("words", ["", "--pool\nl4"])
def test_a_check_whose_expectations_did_not_arrive_proves_nothing(machine: Boot, words: str) -> None:
    verdict, _ = machine.run(says("fine"), gpu_smoke_args=words)
    expected = "the check's expectations did not arrive: the machine's metadata has no readable gpu-smoke-args"
    assert (verdict["verdict"], verdict["exit_code"], verdict["summary"]) == ("fail", 2, expected)


def test_the_check_gets_its_words_one_by_one(machine: Boot) -> None:
    source = "import sys; open(sys.argv[-1], 'w').write(repr(sys.argv[1:-1]))"
    verdict, _ = machine.run(source)
    assert verdict["summary"] == "['--pool', 'l 4', '--expect-gpus', '1', '--termination-log']"


def test_an_image_without_python_is_a_fail(machine: Boot) -> None:
    machine.only()
    verdict, _ = machine.run(says("fine"))
    assert (verdict["verdict"], verdict["summary"]) == ("fail", "the image has no python3")


def test_an_image_without_curl_is_no_hindrance(machine: Boot) -> None:
    machine.only("python3")
    verdict, _ = machine.run(says("fine", 0))
    assert (verdict["verdict"], verdict["summary"]) == ("pass", "fine")


def test_an_image_without_torch_gets_the_pinned_one(machine: Boot) -> None:
    """A stand-in for python3 plays the image: no torch, a venv that works, a pip that has no way out."""
    machine.only()
    machine._tool(
        "python3",
        f"""case "$*" in
          *find_spec*) exit 1 ;;
          "-m venv"*) {shutil.which("mkdir")} -p "$3/bin"; {shutil.which("cp")} "$0" "$3/bin/python" ;;
          "-m pip install"*) echo "$*"; echo "ERROR: No matching distribution found"; exit 1 ;;
          *) exec "{sys.executable}" "$@" ;;
        esac""",
    )
    verdict, serial = machine.run(says("fine"), gpu_smoke_torch="9.9.9")
    assert verdict["verdict"] == "fail"
    assert verdict["summary"] == (
        "torch 9.9.9 could not be installed: ERROR: No matching distribution found; the network may have no way out"
    )
    assert "-m pip install --quiet --no-cache-dir torch==9.9.9" in serial


def pip_and_uv(machine: Boot) -> None:
    """A python3 without torch whose venv has a pip and a uv that only say what they are asked for."""
    machine.only()
    machine._tool("uv", 'echo "uv $*"; echo "error: no answer" >&2; exit 2')
    machine._tool(
        "python3",
        f"""case "$*" in
          *find_spec*) exit 1 ;;
          "-m venv"*) {shutil.which("mkdir")} -p "$3/bin"; {shutil.which("cp")} "$0" "$3/bin/python"
            {shutil.which("cp")} "{machine.tools}/uv" "$3/bin/uv" ;;
          "-m pip install"*) echo "pip $*" ;;
          *) exec "{sys.executable}" "$@" ;;
        esac""",
    )


def test_a_torch_for_another_cuda_is_installed_from_pytorchs_own_index(machine: Boot) -> None:
    pip_and_uv(machine)
    verdict, serial = machine.run(says("fine"), gpu_smoke_torch="2.14.0+cu126", gpu_smoke_uv="0.13.8")
    assert "pip -m pip install --quiet --no-cache-dir uv==0.13.8" in serial
    (line,) = [line for line in serial.splitlines() if line.startswith("uv ")]
    assert line.startswith("uv pip install --quiet --no-cache --python ")
    assert line.endswith("--torch-backend cu126 torch==2.14.0")
    assert verdict["summary"] == (
        "torch 2.14.0+cu126 could not be installed: error: no answer; the network may have no way out"
    )


# Google's installer on a machine that is restarted: `nvidia-smi` works once it has run twice.
INSTALLER = """import os, pathlib, signal, sys
state = pathlib.Path(os.environ["GPU_CI_STATE"])
calls = state.parent / "calls"
calls.write_text((calls.read_text() if calls.exists() else "") + " ".join(sys.argv[1:]) + "\\n")
if {restarts}:
    if len(calls.read_text().splitlines()) == 1:
        print("Rebooting now.")
        os.kill(int(os.environ["BOOT"]), signal.SIGTERM)
    else:
        (state.parent / "driver").touch()
print("the installer's last words")
sys.exit({code})
"""


class Installing(Boot):
    """A machine whose image brings no driver."""

    def __init__(self, folder: Path, metadata: Metadata) -> None:
        super().__init__(folder, metadata)
        self.state = folder / "state"
        self.installs(restarts=True, code=0)
        self._tool("nvidia-smi", f'[[ -e "{folder}/driver" ]]')
        self._tool(
            "curl",
            f"""if [[ $* == *cuda_installer.pyz* ]]; then
          while [[ $1 != -o ]]; do shift; done
          [[ ! -e "{folder}/no-way-out" ]] || {{ echo "curl: (28) timed out" >&2; exit 28; }}
          exec {shutil.which("cp")} "{folder}/installer.pyz" "$2"
        fi
        exec {shutil.which("curl")} "$@"
        """,
        )

    def installs(self, *, restarts: bool, code: int) -> None:
        (self.folder / "installer.pyz").write_text(INSTALLER.format(restarts=restarts, code=code))

    def boot(self, check: str, **attributes: str) -> str:
        """One boot; what went to the serial port. Whether it published anything, `metadata.published` tells."""
        self.metadata.attributes = {
            "gpu-ci-role": "check",
            "gpu-smoke-pyz": _packed(check),
            "gpu-smoke-args": "--pool\nl4\n--expect-gpus\n1",
            "gpu-driver-source": "installer",
            "gpu-driver-branch": "lts",
            "gpu-driver-installer": "https://releases.example/cuda_installer.pyz",
            **{key.replace("_", "-"): value for key, value in attributes.items()},
        }
        environment = {
            "PATH": self.path,
            "GCE_METADATA_HOST": f"127.0.0.1:{self.metadata.server_port}",
            "PYTHONPATH": str(self.torch),
            "GPU_CI_STATE": str(self.state),
        }
        script = self.folder / "boot.sh"
        script.write_text(boot.script())
        command = f'export BOOT=$$; exec {shutil.which("bash")} "{script}"'
        done = subprocess.run(
            [str(shutil.which("bash")), "-c", command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout + done.stderr

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def verdict(self) -> dict[str, Any]:
        ((_, body),) = self.metadata.published
        found: dict[str, Any] = json.loads(body)
        return found


@pytest.fixture
def installing(tmp_path: Path, metadata: Metadata) -> Installing:
    return Installing(tmp_path, metadata)


def test_the_installer_may_restart_the_machine_which_says_nothing_before_its_driver_is_there(
    installing: Installing,
) -> None:
    first = installing.boot(says("1 x NVIDIA L4 computes"))
    assert "Rebooting now." in first
    assert installing.metadata.published == []
    assert "SHUTDOWN" not in first
    second = installing.boot(says("1 x NVIDIA L4 computes"))
    assert installing.verdict() == {"verdict": "pass", "exit_code": 0, "summary": "1 x NVIDIA L4 computes"}
    assert installing.calls == ["install_driver --installation-mode=binary --installation-branch=lts"] * 2
    assert "SHUTDOWN -h now" in second
    assert not installing.state.exists()


def test_a_machine_that_has_its_driver_is_checked_without_the_installer(installing: Installing) -> None:
    (installing.folder / "driver").touch()
    installing.boot(says("fine"))
    assert installing.verdict()["summary"] == "fine"
    assert not (installing.folder / "calls").exists()


@pytest.mark.parametrize("code", [0, 3])
def test_an_installer_that_ends_without_a_driver_is_a_fail_in_its_last_words(installing: Installing, code: int) -> None:
    installing.installs(restarts=False, code=code)
    installing.boot(says("fine"))
    assert installing.verdict()["verdict"] == "fail"
    assert installing.verdict()["summary"] == (
        f"cuda_installer ended with code {code} and no driver: the installer's last words"
    )


def test_an_installer_that_cannot_be_fetched_is_a_fail(installing: Installing) -> None:
    (installing.folder / "no-way-out").touch()
    installing.boot(says("fine"))
    assert installing.verdict()["summary"] == (
        "cuda_installer could not be fetched: curl: (28) timed out; the network may have no way out"
    )


def test_a_machine_that_is_restarted_again_and_again_is_a_fail(installing: Installing) -> None:
    installing.state.mkdir()
    (installing.state / "restarts").write_text("4\n")
    installing.boot(says("fine"))
    assert installing.verdict()["summary"] == "cuda_installer has restarted the machine 4 times and there is no driver"


def test_the_deadline_counts_from_the_first_boot(installing: Installing) -> None:
    installing.state.mkdir()
    (installing.state / "began").write_text("1000000000\n")
    (installing.folder / "driver").touch()
    installing.boot(says("fine"), gpu_smoke_deadline_sec="900")
    assert installing.verdict()["verdict"] == "fail"


def cos(machine: Boot, *, driver: int = 0, pull: int = 0) -> None:
    """Container-Optimized OS: no Python of its own, cos-extensions for the driver, docker for the check."""
    machine.only()
    for tool in ("curl", "mkdir", "date"):
        (machine.tools / tool).symlink_to(str(shutil.which(tool)))
    machine._tool("cos-extensions", f'echo "cos-extensions $*"; echo "no such driver" >&2; exit {driver}')
    machine._tool("mount", 'echo "mount $*"')
    machine._tool(
        "docker",
        f"""echo "docker $*"
        if [[ $1 == pull ]]; then echo "unauthorized" >&2; exit {pull}; fi
        while [[ $1 != python3 ]]; do shift; done
        shift; exec "{sys.executable}" "$@"
        """,
    )


COS = {"gpu_driver_source": "cos", "gpu_driver_branch": "R580", "gpu_smoke_image": "registry.example/torch@sha256:00"}


def test_on_container_optimized_os_the_check_runs_in_a_container(machine: Boot) -> None:
    cos(machine)
    verdict, serial = machine.run(says("1 x NVIDIA L4 computes"), **COS)
    assert verdict["summary"] == "1 x NVIDIA L4 computes"
    said = [line for line in serial.splitlines() if line.startswith(("cos-extensions", "mount", "docker"))]
    assert said[:4] == [
        "cos-extensions install gpu -- -version=R580",
        "mount --bind /var/lib/nvidia /var/lib/nvidia",
        "mount -o remount,exec /var/lib/nvidia",
        "docker pull --quiet registry.example/torch@sha256:00",
    ]
    assert said[4].startswith("docker run --rm --network host --device=/dev/nvidia")
    assert "--volume /var/lib/nvidia/lib64:/usr/local/nvidia/lib64" in said[4]
    assert " registry.example/torch@sha256:00 python3 " in said[4]


@pytest.mark.parametrize("source", ["installer", "cos"])
def test_on_a_computer_that_is_no_machine_of_google_no_driver_is_installed(machine: Boot, source: str) -> None:
    cos(machine)
    machine.is_google = False
    verdict, serial = machine.run(says("fine"), **(COS | {"gpu_driver_source": source}))
    assert verdict["verdict"] == "fail"
    assert verdict["summary"].startswith("a driver is installed on machines of Compute Engine only, and this is none: ")
    assert not any(word in serial for word in ("cos-extensions", "mount", "docker", "cuda_installer"))


def test_a_driver_container_optimized_os_has_not_is_a_fail(machine: Boot) -> None:
    cos(machine, driver=1)
    verdict, _ = machine.run(says("fine"), **COS)
    assert verdict["summary"] == "Container-Optimized OS could not install driver R580: no such driver"


def test_a_container_that_cannot_be_fetched_is_a_fail(machine: Boot) -> None:
    cos(machine, pull=1)
    verdict, _ = machine.run(says("fine"), **COS)
    assert verdict["summary"] == "the container of the check could not be fetched: unauthorized"
