"""Which runs may use a runner group that public repositories may use: attacks on the approval of a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from gpu_manager.github import sweep
from gpu_manager.github.adapter import GithubAdapter
from gpu_manager.model import Job, JobKey
from gpu_manager.ports import Refused

from tests.manager.github.fake_github import FakeGithub, Payload, adapter, group, job, repository, run
from tests.manager.github.test_registrations import CREATE, NAME, POOL, answers, created

SHA, OLD_SHA = "a" * 40, "0123456789abcdef0123456789abcdef01234567"
BASE = {"id": 1, "full_name": "example-org/kernels", "owner": {"login": "example-org"}}
FORK = {"id": 2, "full_name": "mallory/kernels", "owner": {"login": "mallory"}}
WRITER, AUTHOR = {"id": 10, "login": "maintainer", "type": "User"}, {"id": 66, "login": "mallory", "type": "User"}
OF_FORK: Payload = {
    "event": "pull_request", "head_sha": SHA, "head_branch": "fix", "repository": BASE, "head_repository": FORK,
}  # fmt: skip


def pull(number: int = 5, **head: Any) -> Payload:
    made = {"sha": SHA, "ref": "fix", "repo": FORK, **head}
    return {"id": number, "number": number, "state": "open", "head": made, "base": {"repo": BASE}, "user": AUTHOR}


def comment(body: str = f"/ok to test {SHA}", user: Payload | None = WRITER, **others: Any) -> Payload:
    at = "2026-11-24T11:00:00Z"
    return {"id": 900, "body": body, "user": user, "created_at": at, "updated_at": at, **others}


def right(user: Payload, permission: str, role: str = "") -> Payload:
    return {"permission": permission, "role_name": role or permission, "user": user}


@pytest.fixture
def github() -> FakeGithub:
    """Return a public repository with a pull request of a fork, whose run waits for a machine."""
    return FakeGithub(
        groups=[group(2, "gpu", allows_public_repositories=True)],
        group_repositories={2: [repository("kernels", private=False)]},
        runs={"kernels": [run(1, "queued", **OF_FORK)]},
        jobs={1: [job(11, 1, "queued")]},
        pulls=[pull()],
        rights={"maintainer": right(WRITER, "write"), "mallory": right(AUTHOR, "read")},
    )


@pytest.fixture
def manager(github: FakeGithub, tmp_path: Path) -> Iterator[GithubAdapter]:
    made = adapter(github, tmp_path, public=True)
    yield made
    made.close()


def seen(manager: GithubAdapter) -> Job:
    view = manager.observe(())
    assert view.problems == ()
    [found] = view.jobs or ()
    return found


def why(manager: GithubAdapter) -> str:
    """Return why the run gets no machine; empty if it gets one."""
    refusal = seen(manager).refusal
    return f"{refusal.code}: {refusal.detail}" if refusal else ""


def test_a_fork_waits_until_a_person_with_write_access_approves_its_commit(
    github: FakeGithub, manager: GithubAdapter
) -> None:
    assert why(manager) == (
        "approval-pending: someone with write access to example-org/kernels must read the commit, and then comment on "
        f"the pull request 5, with nothing else: /ok to test {SHA}"
    )
    github.comments[5] = [comment(f"  /ok to test {SHA}\r\n")]
    assert why(manager) == ""
    assert seen(manager).key == JobKey("example-org/kernels", 1, 11, 1)
    token = {"actions": "write", "organization_self_hosted_runners": "write", "pull_requests": "read"}
    assert github.permissions == [{"permissions": token}]


def test_an_unchanged_approval_costs_no_requests_of_the_limit(github: FakeGithub, manager: GithubAdapter) -> None:
    github.comments[5] = [comment()]
    seen(manager)
    used, asked = github.used, len(github.asked)
    seen(manager)
    assert github.used == used
    assert len(github.asked) > asked


@pytest.mark.parametrize(("permission", "role"), [("write", "maintain"), ("admin", "admin"), ("write", "ci-team")])
def test_each_right_to_write_approves(github: FakeGithub, manager: GithubAdapter, permission: str, role: str) -> None:
    github.rights["maintainer"] = right(WRITER, permission, role)
    github.comments[5] = [comment()]
    assert why(manager) == ""


ATTACKS: dict[str, Callable[[], Payload | list[Payload]]] = {
    "its author approves the own commit": lambda: comment(user=AUTHOR),
    "a person with triage": lambda: comment(user={"id": 12, "login": "triager", "type": "User"}),
    "a stranger, of whom GitHub says 404": lambda: comment(user={"id": 13, "login": "stranger", "type": "User"}),
    "a login that another account has now": lambda: comment(user={**WRITER, "id": 11}),
    "an edited comment": lambda: comment(updated_at="2026-11-24T11:00:01Z"),
    "a bot that repeats a title": lambda: comment(user={"id": 14, "login": "github-actions[bot]", "type": "Bot"}),
    "a deleted account": lambda: comment(user=None),
    "quoted text": lambda: comment(f"> /ok to test {SHA}"),
    "a block of code": lambda: comment(f"```\n/ok to test {SHA}\n```"),
    "a reply with the quoted command": lambda: comment(f"> /ok to test {SHA}\n\nNot yet."),
    "further text": lambda: comment(f"/ok to test {SHA} after the tests"),
    "further lines": lambda: comment(f"/ok to test {SHA}\n/ok to test {OLD_SHA}"),
    "a short SHA": lambda: comment(f"/ok to test {SHA[:12]}"),
    "no SHA": lambda: comment("/ok to test"),
    "a command in upper case": lambda: comment(f"/OK TO TEST {SHA}"),
    "upper case": lambda: comment(f"/ok to test {SHA.upper()}"),
    "letters that look alike": lambda: comment(f"/ok to test {chr(0x430)}{SHA[1:]}"),
    "an invisible character": lambda: comment(f"/ok to test \u200b{SHA}"),
    "an older commit": lambda: comment(f"/ok to test {OLD_SHA}"),
    "an empty comment": lambda: {**comment(), "body": None},
    "many comments": lambda: [comment("no")] * 250,
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_this_comment_approves_nothing(github: FakeGithub, manager: GithubAdapter, attack: str) -> None:
    triager = {"id": 12, "login": "triager", "type": "User"}
    github.rights |= {
        "triager": right(triager, "read", "triage"),
        "github-actions[bot]": right({"id": 14}, "write"),
    }
    made = ATTACKS[attack]()
    github.comments[5] = made if isinstance(made, list) else [made]
    assert why(manager).startswith("approval-pending: someone with write access")


def test_an_approval_on_the_third_page_counts(github: FakeGithub, manager: GithubAdapter) -> None:
    github.comments[5] = [*([comment("no")] * 250), comment()]
    assert why(manager) == ""


def test_an_approval_counts_on_each_pull_request_of_the_commit(github: FakeGithub, manager: GithubAdapter) -> None:
    """The runs of its pull requests to several branches do not name their pull request."""
    github.pulls = [pull(), pull(6)]
    github.comments[6] = [comment()]
    assert why(manager) == ""


def test_an_approval_right_after_a_full_page_counts(github: FakeGithub, manager: GithubAdapter) -> None:
    """The first page stays the same, so GitHub answers 304 to its condition."""
    github.comments[5] = [comment("no")] * 100
    assert why(manager)
    github.comments[5].append(comment())
    assert why(manager) == ""


def test_repeated_comments_and_further_runs_of_a_commit_cost_no_further_requests(
    github: FakeGithub, manager: GithubAdapter
) -> None:
    """Anyone may comment, and a fork may have any number of workflows. More requests would delay all repositories."""
    github.comments[5] = [comment(user=AUTHOR)] * 50
    github.runs["kernels"] = [run(number, "queued", **OF_FORK) for number in range(1, 21)]
    github.jobs = {number: [job(10 + number, number, "queued")] for number in range(1, 21)}
    refusals = [each.refusal for each in manager.observe(()).jobs or ()]
    asked = [each for each in github.asked if "/pulls" in each or "/comments" in each or "/permission" in each]
    assert (len(refusals), len(set(refusals)), None in refusals, len(asked)) == (20, 1, False, 3)


@pytest.mark.parametrize(
    "change",
    [
        {"head_sha": OLD_SHA},
        {"head_branch": "other"},
        {"head_repository": {"id": 3, "full_name": "trent/kernels"}},
        {"event": "pull_request_target"},
        {"event": "push"},
    ],
)
@pytest.mark.parametrize("first", [1, 3])
def test_a_run_next_to_an_approved_one_is_decided_by_itself(
    github: FakeGithub, manager: GithubAdapter, change: Payload, first: int
) -> None:
    github.comments[5] = [comment()]
    github.runs["kernels"] = [run(2, "queued", **OF_FORK), run(first, "queued", **{**OF_FORK, **change})]
    github.jobs = {number: [job(number, number, "queued")] for number in (2, first)}
    refused = {each.key.run_id: each.refusal is not None for each in manager.observe(()).jobs or ()}
    assert refused == {2: False, first: True}


def test_an_approval_counts_in_its_repository_only(github: FakeGithub, manager: GithubAdapter) -> None:
    """A fork may have a pull request to each repository of its network."""
    github.comments[5] = [comment()]
    github.group_repositories[2].append(repository("models", private=False))
    github.runs["models"] = [run(2, "queued", **OF_FORK)]
    github.jobs[2] = [job(21, 2, "queued")]
    refused = {each.key.run_id: each.refusal is not None for each in manager.observe(()).jobs or ()}
    assert refused == {1: False, 2: True}


def test_a_run_of_the_repository_does_not_approve_the_same_commit_of_a_fork(
    github: FakeGithub, manager: GithubAdapter
) -> None:
    """A fork of the same name has another id, as after the repository was created again."""
    again = {**FORK, "full_name": BASE["full_name"]}
    github.runs["kernels"] = [
        run(number, "queued", **{**OF_FORK, "head_repository": head}) for number, head in ((1, BASE), (2, again))
    ]
    github.jobs = {number: [job(number, number, "queued")] for number in (1, 2)}
    refused = {each.key.run_id: each.refusal is not None for each in manager.observe(()).jobs or ()}
    assert refused == {1: False, 2: True}


def test_runs_of_a_fork_do_not_displace_those_of_the_repository(
    github: FakeGithub, manager: GithubAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork may have any number of workflows and jobs, which also run on GitHub's own runners."""
    monkeypatch.setattr(sweep, "MOST_RUNS", 5)
    monkeypatch.setattr(sweep, "MOST_JOBS", 20)
    github.runs["kernels"] = [run(number, "in_progress", **OF_FORK) for number in range(1, 11)]
    github.jobs = {number: [job(100 * number + at, number, "queued") for at in range(30)] for number in range(1, 11)}
    own = {"repository": BASE, "head_repository": BASE, "created_at": "2026-11-24T11:00:00Z"}
    github.runs["kernels"] += [run(number, "queued", **own) for number in (11, 12)]
    github.jobs |= {number: [job(100 * number, number, "queued")] for number in (11, 12)}
    assert {1100, 1200} <= {each.key.job_id for each in manager.observe(()).jobs or ()}


def test_the_reason_names_a_comment_that_does_not_count(github: FakeGithub, manager: GithubAdapter) -> None:
    github.comments[5] = [comment(user=AUTHOR), comment(updated_at="2026-11-24T11:00:01Z")]
    assert why(manager).endswith(
        "; the comment of mallory does not count: its author has no write access; the comment of maintainer does not "
        "count: it was edited"
    )


def test_a_push_after_the_approval_makes_it_void_for_both_commits(github: FakeGithub, manager: GithubAdapter) -> None:
    github.comments[5] = [comment()]
    assert why(manager) == ""
    github.pulls = [pull(sha=OLD_SHA)]
    assert why(manager).startswith(f"approval-pending: {SHA}: no open pull request has this commit as its newest one")
    github.runs["kernels"] = [run(1, "queued", **{**OF_FORK, "head_sha": OLD_SHA})]
    assert why(manager).startswith("approval-pending: someone with write access")
    # After a push back, the pull request has exactly the code that was approved.
    github.pulls, github.runs["kernels"] = [pull()], [run(1, "queued", **OF_FORK)]
    assert why(manager) == ""


def test_an_approval_counts_for_no_other_pull_request(github: FakeGithub, manager: GithubAdapter) -> None:
    """A commit that is also in the repository itself, or in another pull request, needs its own approval."""
    other = {"id": 3, "full_name": "trent/kernels", "owner": {"login": "trent"}}
    github.pulls = [pull(), pull(6, repo=other)]
    github.comments[5] = [comment()]
    github.runs["kernels"] = [run(1, "queued", **{**OF_FORK, "head_repository": other})]
    assert "the pull request 6, " in why(manager)


def test_a_new_attempt_of_an_approved_run_is_approved(github: FakeGithub, manager: GithubAdapter) -> None:
    """It runs the same commit. Only people with write access can request it."""
    github.comments[5] = [comment()]
    github.runs["kernels"] = [run(1, "queued", **OF_FORK, run_attempt=2)]
    github.jobs[1] = [job(11, 1, "queued", run_attempt=2)]
    assert seen(manager).refusal is None


@pytest.mark.parametrize("event", ["push", "merge_group", "schedule", "workflow_dispatch", "pull_request"])
def test_a_run_of_the_repository_itself_needs_no_approval(
    github: FakeGithub, manager: GithubAdapter, event: str
) -> None:
    github.runs["kernels"] = [run(1, "queued", **{**OF_FORK, "event": event, "head_repository": BASE})]
    assert why(manager) == ""
    assert not [each for each in github.asked if "/pulls" in each]


@pytest.mark.parametrize(
    "change",
    [
        {"event": "pull_request_target"},
        {"event": "pull_request_target", "head_repository": BASE},
        {"event": "workflow_run", "head_repository": BASE},
        {"event": "issue_comment", "head_repository": BASE},
        {"event": "pull_request_review"},
        {"event": "a-new-event", "head_repository": BASE},
        {"event": None, "head_repository": BASE},
        {"event": "push"},
        {"head_repository": None},
        {"head_repository": None, "event": "push"},
        {"head_repository": {"id": None}, "repository": {"id": None}},
        {"head_repository": {}, "repository": None},
    ],
)
def test_no_comment_approves_this_run(github: FakeGithub, manager: GithubAdapter, change: Payload) -> None:
    github.comments[5] = [comment()]
    github.runs["kernels"] = [run(1, "queued", **{**OF_FORK, **change})]
    assert why(manager).startswith("no-pool: ")


def test_a_run_that_a_fork_starts_in_itself_is_never_read(github: FakeGithub, manager: GithubAdapter) -> None:
    """Its author may change every event and label there, but the fork may not use the runner group."""
    github.runs = {"fork": [run(2, "queued", event="push", repository=FORK, head_repository=FORK)]}
    github.jobs[2] = [job(21, 2, "queued")]
    assert manager.observe(()).jobs == ()
    assert not [each for each in github.asked if "/repos/example-org/fork" in each or "/repos/mallory" in each]


@pytest.mark.parametrize(("base", "counts"), [("Example-Org/KERNELS", True), ("example-org/kernels-2", False)])
def test_only_a_pull_request_to_the_repository_of_the_run_counts(
    github: FakeGithub, manager: GithubAdapter, base: str, counts: bool
) -> None:
    """GitHub does not distinguish upper and lower case in names."""
    github.pulls = [pull(repo={**FORK, "full_name": "Mallory/Kernels"})]
    github.runs["kernels"] = [
        run(1, "queued", **{**OF_FORK, "head_repository": {**FORK, "full_name": "mallory/KERNELS"}})
    ]
    github.pulls[0]["base"] = {"repo": {**BASE, "full_name": base}}
    github.comments[5] = [comment()]
    assert (why(manager) == "") is counts


def test_a_fork_with_the_branch_of_another_fork_is_not_taken_for_it(github: FakeGithub, manager: GithubAdapter) -> None:
    """GitHub filters by owner and branch, and an owner may have several forks of a network."""
    github.pulls = [pull(repo={**FORK, "full_name": "mallory/kernels-2"})]
    github.comments[5] = [comment()]
    assert "no open pull request has this commit" in why(manager)


@pytest.mark.parametrize("path", ["/pulls?", "/comments?", "/permission"])
@pytest.mark.parametrize("status", [403, 502])
def test_without_an_answer_nothing_is_approved_and_other_runs_continue(
    github: FakeGithub, manager: GithubAdapter, path: str, status: int
) -> None:
    github.comments[5] = [comment()]
    github.faults[path] = lambda _: httpx2.Response(status, json={"message": "Resource not accessible"})
    github.runs["kernels"] += [run(2, "queued", repository=BASE, head_repository=BASE)]
    github.jobs[2] = [job(21, 2, "queued")]
    view = manager.observe(())
    refusals = {each.key.run_id: each.refusal for each in view.jobs or ()}
    assert refusals[2] is None
    assert refusals[1] is not None
    assert refusals[1].code == "no-answer"
    assert f"the approval of {SHA} could not be read: " in refusals[1].detail


@pytest.mark.parametrize("answer", [{"no": "list"}, [1], [{"number": "x", "head": {}}], [{**pull(), "base": {}}]])
def test_a_malformed_answer_approves_nothing(github: FakeGithub, manager: GithubAdapter, answer: Any) -> None:
    github.faults["/pulls?"] = lambda _: httpx2.Response(200, json=answer)
    assert "could not be read" in why(manager)


def test_a_group_without_public_repositories_reads_no_approval(github: FakeGithub, tmp_path: Path) -> None:
    github.groups = [group(2, "gpu")]
    github.group_repositories[2] = [repository("kernels")]
    manager = adapter(github, tmp_path)
    assert seen(manager).refusal is None
    manager.close()
    assert not [each for each in github.asked if "/pulls" in each]


def test_a_pool_that_is_not_for_the_public_gets_no_runner_in_a_public_group(
    github: FakeGithub, manager: GithubAdapter
) -> None:
    """Its machines would accept the job of any run."""
    asked = answers(github, CREATE, created())
    with pytest.raises(Refused, match="the runner group gpu allows public repositories"):
        manager.register(POOL, NAME)
    assert asked == []
