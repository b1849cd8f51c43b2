"""Arguments: all problems are in one report, with the same message for a plain value and for an Output."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import pulumi
import pytest
from gpu_ci.args import Args, Input, Integer
from gpu_ci.errors import ArgsError, Problem
from hypothesis import given
from hypothesis import strategies as st
from pulumi.output import UNKNOWN
from pydantic import Field

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import run


class Disk(Args):
    """A disk."""

    size_gib: Input[Annotated[Integer, Field(ge=10)]] = Field(description="GiB, at least 10")


class Machine(Args):
    """A machine."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"network"})

    host_name: str = Field(description="a name")
    disks: list[Disk] = Field(default=[], description="its disks")
    cores: Integer = Field(default=1, ge=1, le=4, description="1 to 4")
    ports: Input[list[Annotated[Integer, Field(ge=1)]]] = Field(default=[80], description="ports")
    tags: dict[str, Input[str]] = Field(default={}, description="tags")
    network: Input[str] | None = Field(default=None, description="a link")


class FromImage(Args):
    """A driver the image brings."""

    source: Literal["image"] = Field(description="image")


class FromInstaller(Args):
    """A driver that is installed at boot."""

    source: Literal["installer"] = Field(description="installer")
    branch: Integer = Field(default=580, ge=500, description="the driver's branch")


Driver = Annotated[FromImage | FromInstaller, Field(discriminator="source")]


class Guest(Args):
    """A machine with a driver."""

    driver: Driver = Field(default=FromImage(source="image"), description="where its driver comes from")
    others: list[Driver] = Field(default=[], description="drivers it had before")


def problems(model: type[Args], **values: Any) -> list[tuple[str, str, str]]:
    """Path, text and got of everything wrong, now or when the values are there."""

    async def settled() -> tuple[Problem, ...]:
        try:
            await model(**values).settle()
        except ArgsError as error:
            return error.problems
        return ()

    return [(found.path, found.text, found.got) for found in run(settled())]


def later(value: Any) -> pulumi.Output[Any]:
    """The value as an Output. It must be made inside a running loop, so as a default of nothing."""
    return pulumi.Output.from_input(value)


def settle(values: Any) -> tuple[Problem, ...]:
    """Problems of a Machine whose values are made inside the loop."""

    async def settled() -> tuple[Problem, ...]:
        try:
            await Machine(**values()).settle()
        except ArgsError as error:
            return error.problems
        return ()

    return run(settled())


def test_all_problems_are_reported_together_with_their_paths() -> None:
    found = problems(
        Machine, hostName=5, disks=[{"sizeGib": 5}, {"sizeGb": 20}], cores="3", ports=[80, 0], tags={"a.b": 1}, hots=1
    )
    assert found == [
        ("hostName", "must be text", "5"),
        ("disks[0].sizeGib", "must be at least 10", "5"),
        ("disks[1].sizeGib", "is missing", "nothing"),
        ("disks[1].sizeGb", "unknown key", "'sizeGb'"),
        ("cores", "must be a whole number", "'3'"),
        ("ports[1]", "must be at least 1", "0"),
        ('tags["a.b"]', "must be text", "1"),
        ("hots", "unknown key", "'hots'"),
    ]


def test_the_report_has_the_house_form() -> None:
    with pytest.raises(ArgsError) as caught:
        Machine(host_name="a", cores=9)
    line = caught.traceback[0].lineno + 1
    assert str(caught.value) == f"Machine (test_args.py:{line}): cores: must be at most 4\n  got: 9\n  expected: 1 to 4"


def test_an_error_is_text_for_a_program_and_structured_for_the_plugin() -> None:
    with pytest.raises(ArgsError) as caught:
        Machine(host_name="a", cores=9)
    assert isinstance(caught.value, pulumi.RunError)
    assert isinstance(caught.value, pulumi.InputPropertiesError)
    assert caught.value.errors == [{"property_path": "cores", "reason": "must be at most 4; expected: 1 to 4"}]


@pytest.mark.parametrize(
    ("key", "bad"),
    [("ports", ["x"]), ("ports", "x"), ("ports", [80, 0]), ("network", 5)],
)
def test_a_late_value_gets_the_message_of_an_early_one(key: str, bad: Any) -> None:
    early = problems(Machine, host_name="a", **{key: bad})
    late = settle(lambda: {"host_name": "a", key: later(bad)})
    assert [(found.path, found.text, found.got) for found in late] == early
    assert len(early) == 1


def test_outputs_deep_in_lists_and_maps_have_their_full_path() -> None:
    found = settle(
        lambda: {
            "host_name": "a",
            "disks": [{"sizeGib": later(20)}, {"sizeGib": later(5)}],
            "tags": {"a.b": later(3), "c": later("x")},
        }
    )
    assert [problem.path for problem in found] == ["disks[1].sizeGib", 'tags["a.b"]']


def test_a_list_with_outputs_in_it_is_checked_as_a_whole() -> None:
    assert [found.path for found in settle(lambda: {"host_name": "a", "ports": [80, later(0)]})] == ["ports[1]"]


def test_a_part_made_on_its_own_is_checked_with_the_whole() -> None:
    found = settle(lambda: {"host_name": "a", "disks": [Disk(size_gib=later(5))]})
    assert [problem.path for problem in found] == ["sizeGib"]


def test_a_late_value_arrives_converted() -> None:
    async def ports() -> Any:
        machine = Machine(host_name="a", ports=later([80.0]))
        return await pulumi.Output.from_input(machine.ports).future()

    assert run(ports()) == [80]


def test_an_unknown_value_passes() -> None:
    assert settle(lambda: {"host_name": "a", "network": later(UNKNOWN), "ports": [80, UNKNOWN]}) == ()


def test_an_output_where_a_plain_value_must_be_is_refused_by_name() -> None:
    (found,) = settle(lambda: {"host_name": later("a")})
    assert (found.path, found.text) == (
        "hostName",
        "must be known before anything is created, so it cannot be an Output",
    )


@pytest.mark.parametrize(("given", "kept"), [(2, 2), (2.0, 2)])
def test_a_whole_number_may_arrive_as_a_float(given: float, kept: int) -> None:
    cores = Machine(host_name="a", cores=given).cores
    assert (cores, type(cores)) == (kept, int)


@pytest.mark.parametrize("bad", ["2", 2.5, True, None, float("inf"), float("nan")])
def test_what_only_looks_like_a_whole_number_is_refused(bad: Any) -> None:
    assert [path for path, _, _ in problems(Machine, host_name="a", cores=bad)] == ["cores"]


@given(secret=st.text(min_size=4).filter(lambda text: text not in "must be a list of whole numbers; expected: ports"))
def test_a_secret_is_never_echoed(secret: str) -> None:
    found = settle(lambda: {"host_name": "a", "ports": pulumi.Output.secret([secret])})
    assert [problem.path for problem in found] == ["ports[0]"]
    assert secret not in ArgsError("Machine", found).message


@given(st.integers(), st.booleans())
def test_early_and_late_values_are_judged_alike(size: int, as_output: bool) -> None:
    found = settle(lambda: {"host_name": "a", "disks": [{"sizeGib": later(size) if as_output else size}]})
    assert [problem.path for problem in found] == ([] if size >= 10 else ["disks[0].sizeGib"])


def test_a_constraint_outside_the_in_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.size: put the constraint inside In"):

        class Wrong(Args):
            size: Input[int] = Field(ge=1)


def test_arguments_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Machine(host_name="a").cores = 2  # type: ignore[misc]


def test_choices_leave_the_wiring_to_the_program() -> None:
    found = Machine.choice_problems({"hostName": "a", "network": "n", "disk": []})
    assert [(problem.path, problem.text, problem.hint) for problem in found] == [
        ("network", "is set by gpu-ci, not in a stack file", "remove it"),
        ("disk", "unknown key", "did you mean disks"),
    ]
    assert Machine.choice_names() == ("hostName", "disks", "cores", "ports", "tags")


def test_the_keys_named_in_a_stack_file_are_those_it_may_use() -> None:
    (found,) = Machine.choice_problems({"hostName": "a", "zzz": 1})
    assert (found.expected, found.hint) == ("one of hostName, disks, cores, ports, tags", "remove it")


class Holder(pulumi.ComponentResource):
    def __init__(self, name: str, args: Machine) -> None:
        args.set_subject(f"Holder '{name}'")
        super().__init__("test:index:Holder", name)


def test_a_program_fails_on_a_late_value_that_nothing_uses() -> None:
    with pytest.raises(ArgsError) as caught:
        deploy(lambda: Holder("h", Machine(host_name="a", network=pulumi.Output.from_input(5))))
    assert str(caught.value) == "Holder 'h': network: must be text\n  got: 5\n  expected: a link"


@pytest.mark.parametrize(
    ("driver", "path", "text", "expected", "hint"),
    [
        ({"source": "installer", "branch": 3}, "driver.branch", "must be at least 500", "the driver's branch", ""),
        (
            {"source": "instaler"},
            "driver.source",
            "is not one of the choices",
            "one of image, installer",
            "did you mean installer",
        ),
        ({"branch": 580}, "driver.source", "is missing", "one of image, installer", "such as source: image"),
        (
            580,
            "driver",
            "must be a map",
            "where its driver comes from; source is one of image, installer",
            "such as {source: image}",
        ),
        (
            {"source": "installer", "brunch": 580},
            "driver.brunch",
            "unknown key",
            "one of source, branch",
            "did you mean branch",
        ),
        ({"source": "image", "branch": 580}, "driver.branch", "unknown key", "one of source", "remove it"),
    ],
)
def test_of_a_choice_of_models_the_one_that_is_meant_is_the_one_that_judges(
    driver: Any, path: str, text: str, expected: str, hint: str
) -> None:
    [found] = Guest.choice_problems({"driver": driver})
    assert (found.path, found.text, found.expected, found.hint) == (path, text, expected, hint)


def test_a_choice_of_models_in_a_list_has_its_whole_path() -> None:
    others = [{"source": "installer", "branch": 1}, {"source": "image"}, {"source": "floppy"}]
    assert [found.path for found in Guest.choice_problems({"others": others})] == [
        "others[0].branch",
        "others[2].source",
    ]
