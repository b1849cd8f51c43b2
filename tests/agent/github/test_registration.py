"""A runner is registered once, with the smallest permission, and GitHub's refusals are quoted."""

from __future__ import annotations

from gpu_agent.github.registration import Registration

from tests.agent.fakes.world import World


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


def test_a_token_for_a_repository_covers_only_this_repository_and_reads_no_group(world: World):
    assert world.register(repository="kernels").runner_id == 101
    [token] = world.github.tokens.values()
    assert token["permissions"] == {"administration": "write", "metadata": "read"}
    assert token["repositories"] == ["kernels"]
    assert world.github.asked == ["token", "register"]
    assert world.github.runners[101]["runner_group_id"] == 1


def test_a_taken_name_gets_a_suffix_three_times(world: World):
    names = [world.github.runners[world.register("runner-a").runner_id]["name"] for _ in range(4)]
    assert names == ["runner-a", "runner-a-2", "runner-a-3", "runner-a-4"]
    assert world.ended().startswith(
        "refused: GitHub answered 409 to a request for a runner's registration: "
        "Already exists - A runner with the name runner-a-4 already exists."
    )


def test_a_rehearsal_sends_every_request_except_the_registration(world: World):
    world.agent().rehearse(world.clock.now() + 60)
    assert world.github.asked == ["token", "groups"]
    world.agent(repository="kernels").rehearse(world.clock.now() + 60)
    assert world.github.asked == ["token", "groups", "token", "runners"]
    assert world.github.runners == {}


def test_a_busy_runner_is_not_removed(world: World):
    registration = world.register()
    world.github.busy.add(registration.runner_id)
    assert not world.agent().remove(registration.runner_id, world.clock.now() + 60)


def test_no_repr_contains_a_secret(world: World):
    registration, agent = world.register(), world.agent()
    assert "planted" not in repr(registration) + str(registration)
    assert "PRIVATE" not in repr(agent) + str(agent)


# Over HTTP.


def test_an_agent_that_has_forgotten_the_key_gets_no_token(world: World) -> None:
    agent = world.agent()
    agent.rehearse(world.clock.now() + 60)
    agent.forget()
    assert not agent.remove(1, world.clock.now() + 60)
    assert world.github.asked.count("token") == 1
