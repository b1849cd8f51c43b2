"""The command `pulumi-sandbox world`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from pulumi_sandbox.cli.world_commands import with_value
from pulumi_sandbox.cli.world_commands import world as command
from pulumi_sandbox.providers.secret_digests import hash_secrets
from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import Record, World

GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
VM = "gcp:compute/instance:Instance"
ID = "projects/p/regions/r/instanceGroupManagers/l4-group"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("PULUMI_SANDBOX_DIR", str(tmp_path))
    made = World(tmp_path / "world.db")
    inputs = {"targetSize": 0, "updatePolicy": {"type": "OPPORTUNISTIC"}, "token": "hunter22"}
    hidden = frozenset({("token",)})
    urn = f"urn:pulumi:staging::ci::{GROUP}::l4-group"
    stored = hash_secrets(inputs, hidden, made.key)
    made.insert(Record(GROUP, ID, "l4-group", urn, stored, stored | {"selfLink": "https://x", "zones": ["a", "b"]}))
    made.insert(Record(VM, "zones/a/check", "check", "", {}, {"name": "check"}, "api"))
    yield made
    made.close()


def run(*words: str, code: int = 0, answer: str | None = None) -> Result:
    result = CliRunner().invoke(command, list(words), input=answer)
    assert result.exit_code == code, result.output
    return result


def group(world: World) -> Record:
    found = world.get(GROUP, ID)
    assert found is not None
    return found


def test_list_shows_every_row_and_filters(world: World) -> None:
    shown = run("list").output
    assert GROUP in shown
    assert ID in shown
    assert "ci/staging" in shown
    assert "(api)" in shown

    def names(*words: str) -> list[str]:
        return [row["name"] for row in json.loads(run("list", "--json", *words).stdout)]

    assert names() == ["l4-group", "check"]
    assert names("--type", "*Instance") == ["check"]
    assert run("list", "--type", "aws:*").output == "no resource has such a type\n"


def test_show_hides_secrets_and_takes_every_way_to_name_a_resource(world: World) -> None:
    for name in ("l4-group", ID, f"{GROUP}/{ID}", group(world).urn):
        row = json.loads(run("show", name, "--json").stdout)
        assert (row["id"], row["inputs"]["token"]) == (ID, "[secret]")
    text = run("show", "l4-group").output
    assert '"token": "[secret]"' in text
    assert "hmac" not in text


def test_a_name_nothing_has_is_answered_with_what_was_meant(world: World) -> None:
    assert "hint: did you mean l4-group?" in run("show", "l4-gruop", code=1).output
    assert "Error: world: zzz: no such resource\n  hint: pulumi-sandbox world list" in run("show", "zzz", code=1).output


def test_a_name_of_several_resources_is_refused_as_ambiguous(world: World) -> None:
    world.insert(Record(VM, "zones/b/check", "check"))
    output = run("remove", "check", code=1).output
    assert f"{VM}/zones/a/check" in output
    assert f"{VM}/zones/b/check" in output
    assert len(world.find(VM)) == 2


def test_edit_changes_inputs_and_outputs_so_that_refresh_finds_drift(world: World) -> None:
    run(
        "edit", "l4-group", "targetSize=3", "updatePolicy.type=PROACTIVE", 'allInstancesConfig.labels["a.b"]=7',
        "zones[1]=c", "selfLink=y",
    )  # fmt: skip
    row = group(world)
    assert row.outputs["targetSize"] == row.inputs["targetSize"] == 3
    assert row.outputs["updatePolicy"] == row.inputs["updatePolicy"] == {"type": "PROACTIVE"}
    assert row.outputs["allInstancesConfig"] == row.inputs["allInstancesConfig"] == {"labels": {"a.b": 7}}
    assert row.outputs["zones"] == ["a", "c"]
    assert row.outputs["selfLink"] == "y"
    assert not {"zones", "selfLink"} & row.inputs.keys(), "the program never set these"
    assert world.events()[-1].note == "edited by hand"


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        ("targetSize", 2, "no value"),
        ("a[=1", 2, "not a property path"),
        ("zones.a=1", 1, f"world: {ID}: zones.a: the value is not an object"),
        ("zones[5]=1", 1, f"world: {ID}: zones[5]: the list has 2 items"),
        ("targetSize[0]=1", 1, "the value is not a list"),
    ],
)
def test_an_edit_that_makes_no_sense_changes_nothing(world: World, change: str, code: int, text: str) -> None:
    before = group(world)
    assert text in run("edit", "l4-group", "selfLink=z", change, code=code).output
    assert group(world) == before


def test_remove_takes_several_away_or_none(world: World) -> None:
    run("remove", "l4-group", "nobody", code=1)
    assert len(world.find()) == 2
    assert run("remove", f"{GROUP}/{ID}", "check").output == f"removed {GROUP}/{ID}\nremoved {VM}/zones/a/check\n"
    assert world.find() == []


def test_break_plants_what_it_says_and_mend_takes_it_away(world: World) -> None:
    run("break", "slow", "--seconds", "60", "--on", "*Template", "--times", "2")
    run("break", "guest", "--set", "A=b=c", "--set", "D=", "--zone", "us-central1-a")
    run("break", "refuse", "--message", "403: no", "--times", "0")
    run("break", "crash")
    assert world.faults() == [
        Fault("slow", "*Template", 2, "", 60.0, "", {}, 1),
        Fault("guest", "*", 1, "us-central1-a", 0.0, "", {"A": "b=c", "D": ""}, 2),
        Fault("refuse", "*", 0, "", 0.0, "403: no", {}, 3),
        Fault("crash", "*", 1, "", 0.0, "", {}, 4),
    ]
    listed = run("faults").output
    assert "slow (a create or an update takes 60 s longer), on *Template, 2 times" in listed
    assert 'refuse (the vendor refuses the create or the update), "403: no", always' in listed
    assert [fault["kind"] for fault in json.loads(run("faults", "--json").stdout)] == [
        "slow",
        "guest",
        "refuse",
        "crash",
    ]
    run("mend", "2")
    assert "planted faults: 1, 3, 4" in run("mend", "2", code=1).output
    assert run("mend", "--all").output == "mended 3 faults\n"
    assert run("faults").output == "no faults are planted\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["slwo"], "'slwo' is not one of"),
        (
            ["crash", "--seconds", "3"],
            "--seconds applies to slow, not to crash",
        ),
        (["slow", "--set", "A=b"], "--set applies to guest, not to slow"),
        (
            ["slow", "--message", "x"],
            "--message applies to refuse, busy, quota, stockout, image, not to slow",
        ),
        (["guest"], "guest needs --set KEY=VALUE"),
        (["guest", "--set", "A"], "expected: KEY=VALUE"),
        (["crash", "--times", "-1"], "-1 is not in the range"),
    ],
)
def test_a_fault_that_makes_no_sense_is_not_planted(world: World, words: list[str], text: str) -> None:
    assert text in run("break", *words, code=2).output
    assert world.faults() == []


def test_a_world_that_cannot_be_read_says_what_to_delete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_SANDBOX_DIR", str(tmp_path))
    (tmp_path / "world.db").write_text("not a database, and long enough to be read as the head of one" * 40)
    assert "hint: delete world.db* in the sandbox's folder" in run("list", code=1).output


objects = st.recursive(
    st.integers() | st.text(), lambda inner: st.dictionaries(st.text(min_size=1), inner, min_size=1), max_leaves=6
)


@given(objects, st.data())
def test_what_is_put_at_a_path_is_there_and_nothing_else_changed(tree: Any, data: st.DataObject) -> None:
    path: tuple[str | int, ...] = ()
    inner = tree
    while isinstance(inner, dict) and data.draw(st.booleans()):
        step = data.draw(st.sampled_from(sorted(inner)))
        path, inner = (*path, step), inner[step]
    changed = with_value(tree, path, "new")
    assert with_value(changed, path, inner) == tree
    for step in path:
        changed = changed[step]
    assert changed == "new"
