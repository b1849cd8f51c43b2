"""The programs of the tasks, as processes, with a folder as the storage and a server for git, GitHub and a receiver."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from gpu_ci.kubernetes.notebooks.objects import TASKS_FOLDER

pytestmark = pytest.mark.slow

TOKEN, RECEIVER = "ghs_planted-token", "planted-receiver"
REPOSITORY = "acme/kernels"
PICTURE = base64.b64encode(b"\x89PNG a picture").decode()
GOOD, FIGURE = "notebooks/good.ipynb", "notebooks/more/a figure & <b>ü.ipynb"
FAILING, HANGING, DYING, BROKEN = (f"notebooks/{name}.ipynb" for name in ("failing", "hanging", "dying", "broken"))
MARK = "4242.25"
"""A number of seconds by which the test finds the processes that the hanging notebook starts."""
CELLS = {
    GOOD: ["x = 40", "import neighbour; print(x + neighbour.TWO)"],
    FIGURE: [f"from IPython.display import Image; import base64\nImage(base64.b64decode('{PICTURE}'))"],
    FAILING: ["x = 1", "x / 0", "print('never')"],
    HANGING: ["1", f"import subprocess\nsubprocess.run(['sleep', '{MARK}'], start_new_session=True)"],
    DYING: ["1", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"],
}
TESTS = """import json, os, pathlib
OUTPUT = pathlib.Path(os.environ["NOTEBOOK_OUTPUT"]) / "notebooks" / "notebooks"
def test_sum():
    assert "42" in (OUTPUT / "good" / "out.ipynb").read_text()
def test_files():
    assert (OUTPUT / "good" / "out.html").exists()
    assert json.loads((OUTPUT / "good" / "result.json").read_text())["status"] == "passed"
"""


def notebook(cells: list[str]) -> str:
    made = [
        {"cell_type": "code", "id": f"c{n}", "metadata": {}, "execution_count": None, "outputs": [], "source": source}
        for n, source in enumerate(cells)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})


class Github:
    """Private repositories over HTTP, the API, and the receiver of notifications, at one address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.statuses: list[dict[str, Any]] = []
        self.notifications: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.down: set[str] = set()
        github = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                github.git(self, b"")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if ".git/" in self.path:
                    return github.git(self, body)
                code, answer = github.post(self.path, self.headers["Authorization"] or "", json.loads(body))
                return github.answer(self, code, {"Content-Type": "application/json"}, json.dumps(answer).encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"

    def post(self, path: str, access: str, body: Any) -> tuple[int, Any]:
        if path in self.down:
            return 403, {}
        if path == f"/{RECEIVER}":
            self.notifications.append(body)
            return 200, {}
        if path == "/app/installations/7/access_tokens":
            claims = jwt.decode(access.removeprefix("Bearer "), self.key.public_key(), ["RS256"])
            assert claims["iss"] == "Iv1.planted-id"
            self.asked.append(body)
            return 201, {"token": TOKEN}
        assert access == f"Bearer {TOKEN}"
        self.statuses.append({"path": path, **body})
        return 201, {}

    def git(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        expected = f"Basic {base64.b64encode(f'x-access-token:{TOKEN}'.encode()).decode()}"
        if request.headers["Authorization"] != expected:
            return self.answer(request, 401, {"WWW-Authenticate": "Basic"}, b"")
        path, _, query = request.path.partition("?")
        headers = {"HTTP_GIT_PROTOCOL": "Git-Protocol", "HTTP_CONTENT_ENCODING": "Content-Encoding"}
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": request.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            **{key: request.headers[name] for key, name in headers.items() if name in request.headers},
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True, check=True)
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        return self.answer(request, int(fields.pop("Status", "200").split()[0]), fields, rest)

    @staticmethod
    def answer(request: BaseHTTPRequestHandler, code: int, headers: dict[str, str], body: bytes) -> None:
        request.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    def commit(self, repository: str, files: dict[str, str]) -> str:
        """Commit files to a repository, and return the commit."""
        target = self.folder / f"{repository}.git"
        for path, text in files.items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_text(text)
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "files"], ["tag", "-f", "v1"]):
            subprocess.run(["git", *command], cwd=target, check=True, capture_output=True)
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=target, check=True, capture_output=True, text=True)
        return done.stdout.strip()


class Run:
    """One run: its tasks get the values that the objects of Tekton give them."""

    def __init__(self, github: Github, folder: Path, python: Path, name: str, revision: str) -> None:
        self.store, self.files = folder / "store", folder / "store" / "analysis" / REPOSITORY / name
        self.folder, self.python, self.revision = folder / name, python, revision
        self.outputs: list[str] = []
        pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        self.variables = {
            "RUN": name,
            "PIPELINE": "analysis",
            "REPOSITORY": REPOSITORY,
            "BRANCH": "refs/heads/feature/x",
            "REVISION": revision,
            "STORE": f"file://{self.store}",
            "REPORT_URL": "https://reports.acme.dev/",
            "NOTEBOOKS": "notebooks/**/*.ipynb",
            "MOST_NOTEBOOKS": "64",
            "TESTS_PATH": "tests",
            "GITHUB_URL": f"http://{github.host}",
            "GITHUB_API": f"http://{github.host}",
            "GITHUB_APP_ID": "Iv1.planted-id",
            "GITHUB_INSTALLATION_ID": "7",
            "GITHUB_PRIVATE_KEY": github.key.private_bytes(*pem).decode(),
            "NOTIFY_URL": f"json://{github.host}/{RECEIVER}",
            "NOTIFY_ON": "failure recovery",
            "NOTEBOOK_LIMIT_SEC": "300",
            "GPUS": "1",
            "MEMORY_GIB": "8",
        }

    def task(self, name: str, *arguments: str, **variables: str) -> tuple[int, dict[str, str]]:
        """Run the program of a task in an empty folder. Return its exit code and results."""
        work = self.folder / f"{len(self.outputs)}-{name}"
        (work / "results").mkdir(parents=True)
        results = {key: work / "results" / key for key in ("commit", "notebooks", "status", "passed", "failed")}
        environment = {
            "PATH": f"{self.python.parent}:{os.environ['PATH']}",
            "HOME": str(work),
            **self.variables,
            **variables,
            **{f"RESULT_{key.upper()}": str(path) for key, path in results.items()},
        }
        command = [str(self.python), str(TASKS_FOLDER / f"{name}.py"), *arguments]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
        self.outputs.append(done.stdout + done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, {key: path.read_text() for key, path in results.items() if path.exists()}

    def execute(self, path: str, **variables: str) -> dict[str, Any]:
        code, results = self.task("execute", NOTEBOOK=path, **variables)
        assert code == 0, self.outputs[-1]
        found = self.json(f"notebooks/{path.removesuffix('.ipynb')}/result.json")
        assert found["status"] == results["status"]
        assert found["notebook"] == path
        return found

    def publish(self, **ends: str) -> dict[str, Any]:
        """Run `publish`, where the tasks that are not named succeeded."""
        tasks = ("PREPARE", "EXECUTE", "CONVERT", "TEST", "VERDICT")
        statuses = {f"{each}_STATUS": ends.get(each, "Succeeded").split()[0] for each in tasks}
        reasons = {f"{each}_REASON": ends.get(each, "None Succeeded").partition(" ")[2] for each in tasks}
        code, _ = self.task("publish", STATUS="Failed" if ends else "Succeeded", **statuses, **reasons)
        assert code == 0, self.outputs[-1]
        return self.json("report.json")

    def json(self, path: str) -> Any:
        return json.loads((self.files / path).read_text())


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Github]:
    found = Github(tmp_path_factory.mktemp("github"))
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def revision(github: Github) -> str:
    files = {path: notebook(cells) for path, cells in CELLS.items()}
    more = {BROKEN: "{", "notebooks/neighbour.py": "TWO = 2", "notebooks/yaml.py": "1 / 0", "tests/test_sum.py": TESTS}
    return github.commit(REPOSITORY, {**files, **more})


@pytest.fixture
def run(github: Github, revision: str, tmp_path: Path, notebook_python: Path) -> Iterator[Run]:
    """A new run. After each test, no output and no stored file may have a secret."""
    for each in (github.statuses, github.notifications, github.asked, github.down):
        each.clear()
    found = Run(github, tmp_path, notebook_python, "run-kernels-1", revision)
    yield found
    stored = [path.read_bytes().decode(errors="replace") for path in found.store.rglob("*") if path.is_file()]
    key = found.variables["GITHUB_PRIVATE_KEY"].splitlines()[1:-1]
    basic = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
    for secret in (TOKEN, basic, RECEIVER, *key):
        assert not any(secret in text for text in (*found.outputs, *stored))


def test_a_good_run_has_a_report_and_a_status_and_the_next_bad_and_good_ones_notify(run: Run, github: Github) -> None:
    smi = run.folder / "bin" / "nvidia-smi"
    smi.parent.mkdir(parents=True)
    smi.write_text('#!/bin/sh\ncase "$*" in *free*) echo 20000;; *total*) echo 23034;; *) echo 3034;; esac\n')
    smi.chmod(0o755)
    code, results = run.task("prepare", NOTEBOOKS="notebooks/good.ipynb\nnotebooks/more/*")
    assert code == 0, run.outputs[-1]
    assert results == {"commit": run.revision, "notebooks": json.dumps([GOOD, FIGURE], ensure_ascii=False)}
    assert github.asked[0] == {"repositories": ["kernels"], "permissions": {"contents": "read"}}
    found = run.execute(GOOD, PATH=f"{smi.parent}:{run.python.parent}:{os.environ['PATH']}")
    assert (found["status"], found["error"], found["peakGpuMemoryMib"]) == ("passed", None, 3034)
    assert found["peakMemoryMib"] > 20
    assert run.execute(FIGURE)["peakGpuMemoryMib"] is None
    assert run.task("convert")[0] == 0
    assert run.task("test") == (0, {"passed": "2", "failed": "0"})
    assert run.task("verdict", "passed", "passed", PASSED="2", FAILED="0") == (0, {})
    report = run.publish()
    assert (report["verdict"], report["reason"]) == ("passed", "2 notebooks and 2 tests passed")
    assert [each["html"] for each in report["notebooks"]] == [
        "notebooks/notebooks/good/out.html",
        "notebooks/notebooks/more/a figure & <b>ü/out.html",
    ]
    page = (run.files / "index.html").read_text()
    assert f'src="data:image/png;base64,{PICTURE}"' in page
    assert "a figure &amp; &lt;b&gt;ü" in page
    assert '"notebooks/notebooks/more/a%20figure%20%26%20%3Cb%3E%C3%BC/out.html"' in page
    assert "<script" not in page
    address = "https://reports.acme.dev/analysis/acme/kernels/run-kernels-1/index.html"
    assert [(each["state"], each["target_url"]) for each in github.statuses] == [
        ("pending", address),
        ("success", address),
    ]
    assert github.statuses[1]["path"] == f"/repos/acme/kernels/statuses/{run.revision}"
    assert (github.statuses[1]["context"], github.statuses[1]["description"]) == (
        "gpu-ci/notebooks/analysis",
        report["reason"],
    )
    assert github.notifications == []

    assert run.publish(VERDICT="Failed Failed")["verdict"] == "failed"
    run.publish()
    run.publish()
    titles = [each["title"] for each in github.notifications]
    assert titles == [f"acme/kernels feature/x: notebooks {each}" for each in ("failed", "recovered")]


def test_bad_notebooks_succeed_as_tasks_and_fail_the_run(run: Run, github: Github) -> None:
    assert run.task("prepare", NOTEBOOKS="notebooks/*.ipynb")[0] == 0
    failing, dying, broken = run.execute(FAILING), run.execute(DYING), run.execute(BROKEN)
    for limit_sec in ("8", "30", "120"):  # A busy machine may need more time to reach the cell that hangs.
        hanging = run.execute(HANGING, NOTEBOOK_LIMIT_SEC=limit_sec)
        if hanging["error"]["cell"] == 2:
            break
    assert failing["status"] == "failed"
    assert failing["error"] == {"name": "ZeroDivisionError", "message": "division by zero", "cell": 2}
    assert (dying["status"], dying["error"]["name"]) == ("error", "DeadKernelError")
    assert dying["hint"] == "the kernel died: if it needs more than 8 GiB of memory, raise memoryGib"
    assert (broken["status"], broken["error"]["name"], broken["hint"]) == ("error", "NotJSONError", None)
    assert (hanging["status"], hanging["error"]["cell"]) == ("timeout", 2)
    assert "timeouts.notebookMin" in hanging["error"]["message"]
    assert MARK not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert run.task("convert")[0] == 0
    assert "ZeroDivisionError" in (run.files / "notebooks/notebooks/failing/out.html").read_text()
    assert (run.files / "notebooks/notebooks/hanging/out.html").exists()
    code, results = run.task("test")
    assert (code, results) == (0, {"passed": "0", "failed": "2"})
    statuses = [each["status"] for each in (broken, dying, failing, hanging)]
    assert run.task("verdict", *statuses, PASSED="0", FAILED="2")[0] == 1
    assert "4 of 4 notebooks did not pass (error, failed, timeout); 2 of 2 tests failed" in run.outputs[-1]
    github.down.add(f"/{RECEIVER}")
    report = run.publish(VERDICT="Failed Failed")
    assert report["reason"] == "5 of 5 notebooks did not pass (error, failed, missing, timeout); 2 of 2 tests failed"
    assert "FileNotFoundError" in report["tests"]["failures"][0]["message"]
    assert report["tasks"][-1]["problem"].startswith("4 of 4 notebooks did not pass")
    page = (run.files / "index.html").read_text()
    assert "Cell 2: ZeroDivisionError: division by zero" in page
    assert github.statuses[-1]["state"] == "failure"
    assert "the receiver did not take it" in run.outputs[-1]


@pytest.mark.parametrize(
    ("files", "variables", "counts", "message"),
    [
        ({"tests/conftest.py": "import missing_module"}, {}, ("0", "1"), "No module named 'missing_module'"),
        ({"tests/test_bad.py": "import missing_module"}, {}, ("0", "1"), "No module named 'missing_module'"),
        ({"tests/test_skip.py": "import pytest\n@pytest.mark.skip\ndef test(): ..."}, {}, ("0", "0"), None),
        ({"tests/test_one.py": "def test(): ..."}, {"TESTS_PATH": "absent"}, ("0", "0"), None),
        ({"t/test_one.py": "def test(): ..."}, {"TESTS_PATH": "t", "TESTS_REVISION": "v1"}, ("1", "0"), None),
    ],
)
def test_tests_that_cannot_run_are_failures_and_none_is_none(
    run: Run,
    github: Github,
    files: dict[str, str],
    variables: dict[str, str],
    counts: tuple[str, str],
    message: str | None,
) -> None:
    repository = f"acme/tests-{abs(hash(str(files)))}"
    github.commit(repository, files)
    tests = {"TESTS_REPOSITORY": repository, "TESTS_REVISION": "", **variables}
    assert run.task("prepare", NOTEBOOKS=GOOD)[0] == 0
    assert run.task("fetch_tests", **tests)[0] == 0, run.outputs[-1]
    assert github.asked[-1]["repositories"] == [repository.removeprefix("acme/")]
    code, results = run.task("test", **tests)
    assert (code, results["passed"], results["failed"]) == (0, *counts), run.outputs[-1]
    assert (message or "") in (run.files / "junit.xml").read_text()
    if counts == ("0", "0"):
        assert run.task("verdict", "passed", PASSED="0", FAILED="0")[0] == 1
        assert "there was no test" in run.outputs[-1]


@pytest.mark.parametrize(
    ("variables", "lines"),
    [
        ({"NOTEBOOKS": "absent/*.ipynb\nnotebooks/*.py"},
         ["no notebook matches", "  got: no committed file", "  expected: a match of absent/*.ipynb, notebooks/*.py"]),
        ({"NOTEBOOKS": "../*.ipynb"}, ["no notebook matches", "is outside repository"]),
        ({"MOST_NOTEBOOKS": "2"}, ["too many notebooks", "  got: 6 notebooks", "  expected: at most 2 notebooks"]),
        ({"REVISION": "f" * 40}, ["git fetch fails", "  path: acme/kernels", f"  expected: the revision {'f' * 40}"]),
        ({"REVISION": "v1"}, ["the revision is no commit", "  got: v1"]),
        ({"STORE": "file:///proc/absent"}, ["os error"]),
    ],
)  # fmt: skip
def test_prepare_says_what_is_wrong_and_the_report_repeats_it(
    run: Run, github: Github, variables: dict[str, str], lines: list[str]
) -> None:
    code, results = run.task("prepare", **variables)
    assert (code, results) == (1, {})
    for line in lines:
        assert line in run.outputs[-1]
    if "STORE" in variables:
        return
    nothing = dict.fromkeys(("EXECUTE", "CONVERT", "TEST", "VERDICT"), "None $(tasks.x.reason)")
    report = run.publish(PREPARE="Failed StepFailed", **nothing)
    assert report["verdict"] == "failed"
    assert report["reason"].startswith(f"prepare failed: {lines[0]}")
    assert {each["reason"] for each in report["tasks"]} == {"StepFailed", ""}
    assert [each["state"] for each in github.statuses] == ["failure"]


def test_paths_that_do_not_fit_into_a_result_are_refused(run: Run, github: Github) -> None:
    long = {f"{'x' * 90}/{'y' * 90}{n}.ipynb": "{}" for n in range(20)}
    revision = github.commit("acme/long", long)
    assert run.task("prepare", REPOSITORY="acme/long", NOTEBOOKS="**/*.ipynb", REVISION=revision)[0] == 1
    assert "got: 20 notebooks, of 4" in run.outputs[-1]


@pytest.mark.parametrize(
    ("name", "shown"), [("a\tb", "a\\tb"), ("$(HOME)", "$(HOME)"), ("a$$b", "a$$b"), ("\udcff", "\\udcff")]
)
def test_paths_that_the_storage_or_kubernetes_would_change_are_refused(
    run: Run, github: Github, name: str, shown: str
) -> None:
    revision = github.commit(f"acme/odd-{len(name)}{ord(name[0])}", {f"notebooks/{name}.ipynb": "{}"})
    repository = f"acme/odd-{len(name)}{ord(name[0])}"
    assert run.task("prepare", REPOSITORY=repository, REVISION=revision)[0] == 1
    assert f"  got: 'notebooks/{shown}.ipynb'" in run.outputs[-1]


def test_a_path_with_braces_is_no_template(run: Run, github: Github) -> None:
    path = "notebooks/{{cookiecutter.name}} {x}.ipynb"
    revision = github.commit("acme/braces", {path: notebook(["1"])})
    run.files = run.store / "analysis" / "acme/braces" / "run-kernels-1"
    more = {"REPOSITORY": "acme/braces", "REVISION": revision}
    assert run.task("prepare", **more)[0] == 0
    assert run.execute(path, **more)["status"] == "passed"


def test_a_notebook_that_does_not_fit_into_memory_has_no_page_but_a_report(run: Run, github: Github) -> None:
    assert run.task("prepare", NOTEBOOKS=GOOD)[0] == 0
    out = run.files / "notebooks/notebooks/good/out.ipynb"
    out.parent.mkdir(parents=True)
    with out.open("wb") as file:
        file.truncate(65 * 2**20)
    assert run.task("convert")[0] == 0
    assert "the file is too large" in run.outputs[-1]
    assert run.task("test")[0] == 0
    assert (run.folder / "2-test/output/notebooks/notebooks/good/out.ipynb").stat().st_size == 65 * 2**20
    report = run.publish(VERDICT="Failed")
    assert report["notebooks"][0]["html"] is None
    assert [each["state"] for each in github.statuses] == ["pending", "failure"]


def test_neither_a_process_that_a_task_starts_nor_its_messages_have_a_secret(run: Run) -> None:
    program = """if True:
        import common, subprocess
        subprocess.run(["env"], check=True)
        common.log(f"sent to {common.SECRETS['NOTIFY_URL']}")
        def fail(): raise common.Fault(common.SECRETS["NOTIFY_URL"] + " does not answer")
        common.run(fail)"""
    environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **run.variables}
    command = [str(run.python), "-c", program]
    done = subprocess.run(command, cwd=TASKS_FOLDER, env=environment, capture_output=True, text=True, check=False)
    assert f"REVISION={run.revision}" in done.stdout
    assert "PRIVATE KEY" not in done.stdout
    assert done.stdout.endswith("sent to (secret)\n")
    assert done.stderr == "gpu-ci: (secret) does not answer\n"
    assert (run.files / "problems/-c.txt").read_text() == "(secret) does not answer"
    run.outputs.append(done.stdout)  # the fixture looks for the secrets


def test_a_cancelled_run_has_a_report_also_if_github_does_not_answer(run: Run, github: Github) -> None:
    github.down.add(f"/repos/acme/kernels/statuses/{run.revision}")
    assert run.task("prepare", NOTEBOOKS=GOOD)[0] == 0
    assert "GitHub does not take a request" in run.outputs[-1]
    rest = dict.fromkeys(("CONVERT", "TEST", "VERDICT"), "None")
    report = run.publish(EXECUTE="Failed TaskRunCancelled", **rest)
    assert (report["verdict"], report["notebooks"][0]["status"]) == ("stopped", "missing")
    assert report["reason"] == "the run was cancelled, or ran longer than timeouts.pipelineMin"
    assert "No test ran." in (run.files / "index.html").read_text()
    assert [each["title"] for each in github.notifications] == ["acme/kernels feature/x: notebooks stopped"]


@pytest.mark.parametrize(
    ("smi", "line"),
    [
        ("exit 9", "the GPUs do not answer"),
        ("true", "got: 0 GPUs"),
        ('case "$*" in *free*) echo 100;; *) echo 23034;; esac', "got: 100 of 23034 MiB free"),
    ],
)
def test_a_node_without_a_usable_gpu_fails_the_task_so_that_it_is_repeated(run: Run, smi: str, line: str) -> None:
    assert run.task("prepare", NOTEBOOKS=GOOD)[0] == 0
    program = run.folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{smi}\n")
    program.chmod(0o755)
    code, results = run.task("execute", NOTEBOOK=GOOD, PATH=f"{run.folder}:{os.environ['PATH']}")
    assert (code, results) == (1, {})
    assert line in run.outputs[-1]
    report = run.publish(EXECUTE="Failed StepFailed", VERDICT="None")
    assert line.removeprefix("got: ") in report["notebooks"][0]["error"]["message"]
    assert report["reason"].startswith("execute failed: ")
