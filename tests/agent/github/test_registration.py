"""A runner is registered once, with the smallest permission, and GitHub's refusals are quoted."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from gpu_agent.clock import Clock
from gpu_agent.github.registration import Github, Registration
from gpu_agent.http import Answer
from gpu_agent.outcomes import AgentExit

from tests.agent.fakes.github import FakeGithub, Fault, ask_of
from tests.agent.fakes.github_server import serving
from tests.agent.fakes.world import CONFIG, RUNNER, World


def test_one_registration_takes_three_requests_and_describes_the_runner(world: World):
    assert world.register() == Registration(101, "planted-jitconfig-101")
    assert world.github.asked == ["token", "groups", "register"]
    assert world.github.runners[101] == {
        "id": 101,
        "name": "runner-a",
        "runner_group_id": 7,
        "labels": ["self-hosted", "gpu", "l4"],
        "work_folder": "_work",
    }


def test_a_registration_names_the_work_folder_of_the_configuration(world: World):
    runner = dataclasses.replace(RUNNER, work_folder="_jobs")
    world.agent().register("runner-a", runner, world.clock.now() + 300)
    assert world.github.runners[101]["work_folder"] == "_jobs"


def test_a_token_may_make_runners_of_the_organization_and_nothing_else(world: World):
    world.register()
    [token] = world.github.tokens.values()
    assert token["permissions"] == {"organization_self_hosted_runners": "write", "metadata": "read"}


def test_a_token_for_a_repository_covers_only_this_repository_and_reads_no_group(world: World):
    assert world.register(repository="kernels").runner_id == 101
    [token] = world.github.tokens.values()
    assert token["permissions"] == {"administration": "write", "metadata": "read"}
    assert token["repositories"] == ["kernels"]
    assert world.github.asked == ["token", "register"]
    assert world.github.runners[101]["runner_group_id"] == 1


def test_every_request_has_a_user_agent_and_the_version_of_the_api(world: World):
    world.register()
    assert len(world.github.headers) == 3
    for headers in world.github.headers:
        assert headers["user-agent"] == "gpu-ci-agent"
        assert headers["accept"] == "application/vnd.github+json"
        assert headers["x-github-api-version"] == "2022-11-28"


def test_a_group_is_found_on_whichever_page_it_is(world: World):
    world.github.groups = {number: f"group-{number}" for number in range(1, 250)} | {250: "gpu"}
    world.register()
    assert world.github.asked == ["token", "groups", "groups", "groups", "register"]
    assert world.github.runners[101]["runner_group_id"] == 250


def test_a_missing_group_is_refused_with_the_names_of_the_existing_groups(world: World):
    assert world.ended(runner_group="GPU") == (
        "refused: acme has no runner group named 'GPU', only Default, GitHub-hosted, gpu"
    )
    assert world.github.asked == ["token", "groups"], "a page that is not full is the last"
    world.github.groups = {number: f"g{number}" for number in range(1, 201)}
    assert world.ended().endswith("g19, g20 and 180 more")


def test_a_taken_name_gets_a_suffix_three_times(world: World):
    names = [world.github.runners[world.register("runner-a").runner_id]["name"] for _ in range(4)]
    assert names == ["runner-a", "runner-a-2", "runner-a-3", "runner-a-4"]
    assert world.ended().startswith(
        "refused: GitHub answered 409 to a request for a runner's registration: "
        "Already exists - A runner with the name runner-a-4 already exists."
    )


def test_a_name_and_its_suffix_stay_within_64_characters(world: World):
    for _ in range(2):
        world.register("r" * 64)
    assert [runner["name"] for runner in world.github.runners.values()] == ["r" * 64, "r" * 62 + "-2"]


def test_a_registration_whose_answer_was_lost_is_made_again_under_another_name(world: World):
    world.github.faults["register"] = [Fault("truncated", done_anyway=True)]
    assert world.register().runner_id == 102
    assert [runner["name"] for runner in world.github.runners.values()] == ["runner-a", "runner-a-2"]


def test_a_rehearsal_sends_every_request_except_the_registration(world: World):
    world.agent().rehearse(world.clock.now() + 60)
    assert world.github.asked == ["token", "groups"]
    world.agent(repository="kernels").rehearse(world.clock.now() + 60)
    assert world.github.asked == ["token", "groups", "token", "runners"]
    assert world.github.runners == {}


def test_a_rehearsal_fails_where_a_registration_would(world: World):
    for changes in ({"runner_group": "none"}, {"owner": "other"}, {"repository": "other"}, {"app_id": "1"}):
        with pytest.raises(AgentExit, match=r"^refused: "):
            world.agent(**changes).rehearse(world.clock.now() + 60)


def test_a_registered_runner_can_be_removed(world: World):
    agent, registration = world.agent(), world.register()
    assert agent.remove(registration.runner_id, world.clock.now() + 60)
    assert world.github.runners == {}
    assert agent.remove(registration.runner_id, world.clock.now() + 60), "one that is gone is gone"


def test_a_busy_runner_is_not_removed(world: World):
    registration = world.register()
    world.github.busy.add(registration.runner_id)
    assert not world.agent().remove(registration.runner_id, world.clock.now() + 60)


def test_the_removal_of_a_runner_never_raises(world: World):
    registration = world.register()
    for fault in (Fault("hang"), Fault(status=500), Fault(status=401)):
        world.github.faults["remove"] = [fault] * 50
        assert not world.agent().remove(registration.runner_id, world.clock.now() + 60)
    world.key = b"no key"
    assert not world.agent().remove(registration.runner_id, world.clock.now() + 60)


def test_no_repr_contains_a_secret(world: World):
    registration, agent = world.register(), world.agent()
    assert "planted" not in repr(registration) + str(registration)
    assert "PRIVATE" not in repr(agent) + str(agent)


def test_requests_to_an_enterprise_server_have_its_path(world: World):
    urls: list[str] = []
    asking = ask_of(world.github, world.clock)

    def ask(method: str, url: str, **more: Any) -> Answer:
        urls.append(url)
        return asking(method, url.replace("github.acme.example/api/v3", "api.github.com"), **more)

    config = dataclasses.replace(CONFIG, api_url="https://github.acme.example/api/v3/")
    Github(config, world.key, world.clock, ask).rehearse(world.clock.now() + 60)
    assert urls == [
        "https://github.acme.example/api/v3/app/installations/77/access_tokens",
        "https://github.acme.example/api/v3/orgs/acme/actions/runner-groups?per_page=100&page=1",
    ]


# Over HTTP.


def test_it_registers_over_http(app_key: bytes, public_key: RSAPublicKey):
    clock, github = Clock(), FakeGithub(public_key, time.time)
    with serving(github) as url:
        agent = Github(dataclasses.replace(CONFIG, api_url=f"{url}/"), app_key, clock)
        registration = agent.register("runner-a", RUNNER, clock.now() + 60)
        assert registration.jitconfig == "planted-jitconfig-101"
        assert agent.remove(registration.runner_id, clock.now() + 60)
    assert github.asked == ["token", "groups", "register", "token", "remove"]


def test_the_sandbox_can_replace_githubs_address(
    app_key: bytes, public_key: RSAPublicKey, monkeypatch: pytest.MonkeyPatch
):
    clock, github = Clock(), FakeGithub(public_key, time.time)
    with serving(github) as url:
        monkeypatch.setenv("GPU_AGENT_GITHUB_URL", url)
        Github(CONFIG, app_key, clock).rehearse(clock.now() + 60)
    assert github.asked == ["token", "groups"]


def test_a_stop_during_the_removal_of_a_runner_ends_the_agent(world: World) -> None:
    agent = world.agent()

    def stopped(*_: object, **__: object) -> Answer:
        raise AgentExit("stopped", "the machine received a stop signal")

    agent._api._ask = stopped
    with pytest.raises(AgentExit, match="stopped: "):
        agent.remove(1, world.clock.now() + 5)


def test_an_agent_that_has_forgotten_the_key_gets_no_token(world: World) -> None:
    agent = world.agent()
    agent.rehearse(world.clock.now() + 60)
    agent.forget()
    assert not agent.remove(1, world.clock.now() + 60)
    assert world.github.asked.count("token") == 1
