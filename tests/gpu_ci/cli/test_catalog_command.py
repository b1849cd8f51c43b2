"""`gpu-ci catalog`: what it lists, and what it shows of one machine."""

from __future__ import annotations

import gpu_catalog
import pytest

from tests.gpu_ci.cli.conftest import Ask


def test_a_small_list_is_this_table(ask: Ask) -> None:
    answer = ask("catalog", "--gpu", "gb300")
    assert (answer.code, answer.err) == (0, "")
    heading = next(line for line in answer.out.splitlines() if line.strip())
    assert heading.split() == ["machine", "GPUs", "GPU", "GiB", "cc", "vCPUs", "GiB", "sold", "as", "regions"]
    assert answer.rows == [
        ["gcp/a4x-maxgpu-4g-metal", "4 x GB300", "279", "10.3", "144", "960", "reservation", "3"],
    ]


def test_without_a_command_it_lists(ask: Ask) -> None:
    assert ask("catalog").out == ask("catalog", "list").out != ""


def test_every_filter_narrows_as_the_catalog_does(ask: Ask) -> None:
    asked = {"cloud": "aws", "gpu": "l4", "region": "us-east-1", "market": "spot"}
    options = [word for name, value in asked.items() for word in (f"--{name}", value)]
    found = ask("catalog", *options, "--min-memory-gib", "24", "--json").json
    machines = gpu_catalog.machines(**asked, min_gpu_memory_gib=24)  # type: ignore[arg-type]
    assert [row["machine"] for row in found] == [machine.key for machine in machines] != []


def test_a_region_adds_the_prices_there_with_their_day(ask: Ask) -> None:
    [row] = [
        row
        for row in ask("catalog", "--region", "us-central1", "--json").json
        if row["machine_type"] == "g2-standard-8"
    ]
    price = gpu_catalog.price("g2-standard-8", "us-central1", "standard")
    assert price is not None
    assert row["prices"]["standard"] == {
        "usd_per_hour": price.usd_per_hour,
        "date": price.date,
        "estimated": False,
        "sources": list(price.sources),
    }
    table = ask("catalog", "--gpu", "l4", "--region", "us-central1")
    assert f"{price.usd_per_hour:.4f}" in table.out
    assert "prices of 20" in table.out


def test_n1_is_left_out_and_counted_until_it_is_asked_for(ask: Ask) -> None:
    answer = ask("catalog", "--gpu", "t4", "--cloud", "gcp")
    assert (answer.code, answer.out) == (0, "")
    every = ask("catalog", "--gpu", "t4", "--cloud", "gcp", "--n1", "--json").json
    assert answer.err == f"and {len(every)} N1 machines with attached GPUs: add --n1 to see them\n"
    assert "gcp/n1-standard-8+nvidia-tesla-t4x1" in [row["machine"] for row in every]


def test_no_match_exits_with_1(ask: Ask) -> None:
    answer = ask("catalog", "--gpu", "l4", "--market", "capacity-block")
    hints = "  hint: 9 match without --gpu\n  hint: 27 match without --market\n"
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == f"no machine of the catalog matches all options\n{hints}"
    assert ask("catalog", "--gpu", "l4", "--market", "capacity-block", "--json").json == []


def test_by_price_the_cheapest_offers_come_first_with_their_caveats(ask: Ask) -> None:
    words = ["catalog", "--sort", "price", "--min-memory-gib", "16", "--market", "spot", "--region", "us-central1"]
    found = ask(*words, "--json").json
    prices = [each["price"]["usd_per_hour"] for each in found if each["price"]]
    assert prices == sorted(prices) != []
    assert {(each["market"], each["region"]) for each in found} == {("spot", "us-central1")}
    rows = {row[0]: row[-1] for row in ask(*words).rows}
    assert rows["gcp/n1-standard-4+nvidia-tesla-t4x1"] == "0.2420*"
    assert rows["gcp/g4-standard-48"] == "1.7716"
    out = " ".join(ask(*words).out.split())
    for text in {text for each in found for text in each["caveats"]}:
        assert out.count(text) == 1, text
    assert "note: the machine has 0.25 of a GPU, which needs the vGPU guest driver: g4-standard-12" in out
    assert any("the default torch" in text for each in found for text in each["caveats"])
    given = ask(*words, "--torch", "2.15.0", "--min-gpus", "1", "--json").json
    assert {each["machine"] for each in given} < {each["machine"] for each in found}
    assert not any("default torch" in text for each in given for text in each["caveats"])


def test_a_budget_is_one_of_offers_and_excludes_unknown_prices(ask: Ask) -> None:
    words = ["catalog", "--sort", "price", "--budget"]
    assert all(each["price"]["usd_per_hour"] <= 1 for each in ask(*words, "1", "--json").json)
    answer = ask(*words, "0.01")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.endswith("  hint: machines match without --budget\n")
    assert ask("catalog", "--budget", "1").err.startswith("gpu-ci catalog list: --budget requires --sort price")


def test_a_machine_is_shown_with_every_fact_its_source_and_its_date(ask: Ask) -> None:
    answer = ask("catalog", "show", "g2-standard-8")
    assert answer.code == 0
    lines = {line.split()[0]: " ".join(line.split()) for line in answer.out.splitlines() if line.split()}
    assert lines["vcpus"] == "vcpus 8 gdoc_accel"
    assert lines["nics"] == "nics VIRTIO_NET, GVNIC general (?)"
    assert lines["gpu.compute_capability"] == "gpu.compute_capability 8.9 nv_cuda_gpus"
    assert lines["gdoc_accel"].startswith("gdoc_accel 2026-04-13 Google Cloud documentation")
    assert "europe-west6              europe-west6-b, europe-west6-c\n" in answer.out
    assert "a100" not in answer.out


@pytest.mark.parametrize("name", ["g2-standard-8", "n1-standard-8+nvidia-tesla-t4x1", "p5.48xlarge", "g4ad.xlarge"])
def test_as_json_every_fact_of_the_row_is_there_with_its_sources(ask: Ask, name: str) -> None:
    machine, found = gpu_catalog.machine(name), ask("catalog", "show", name, "--json").json
    assert found["machine"] == machine.key
    for fact, keys in machine.sources.items():
        if hasattr(machine, fact.partition(".")[0]):
            assert [source["key"] for source in found["facts"][fact]["sources"]] == list(keys)
            assert all({"what", "date", "certain"} <= set(source) for source in found["facts"][fact]["sources"])
    assert set(found["places"]) == set(machine.regions)


def test_show_reports_a_machine_that_is_not_in_the_region(ask: Ask) -> None:
    answer = ask("catalog", "show", "g2-standard-8", "--region", "us-south1")
    assert (answer.code, "no price" in answer.out) == (0, False)
    assert (
        "\ng2-standard-8 is not in us-south1; the nearest regions are us-central1, us-east1, us-east4\n" in answer.out
    )


def test_one_region_shows_its_prices_alone(ask: Ask) -> None:
    found = ask("catalog", "show", "g2-standard-8", "--region", "us-central1", "--json").json
    assert list(found["prices"]) == ["us-central1"]
    assert set(found["prices"]["us-central1"]) == {"standard", "spot"}


WRONG = {
    "show g2-standart-8": (
        "show: Invalid value for 'MACHINE': unknown machine type with a GPU 'g2-standart-8'",
        "did you mean g2-standard-8?",
    ),
    "--gpu a100": ("list: Invalid value for '--gpu': unknown GPU 'a100'", "which one: a100-40gb or a100-80gb?"),
    "--zone us-east-1a": (
        "list: Invalid value for '--zone': unknown zone with a GPU 'us-east-1a'",
        "did you mean --region us-east-1?",
    ),
    "--zone us-east1-b --region us-central1": (
        "list: --zone us-east1-b is not in --region us-central1",
        "use --region us-east1, or only one of the two options",
    ),
    "--cloud azure": ("list: Invalid value for '--cloud': unknown cloud 'azure'", "one of gcp, aws, jarvislabs"),
    "--dtype fp9": (
        "list: Invalid value for '--dtype': unknown number type 'fp9'",
        "did you mean fp8?",
    ),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_name_ends_with_2_and_a_word_on_what_was_meant(ask: Ask, words: str) -> None:
    text, hint = WRONG[words]
    answer = ask("catalog", *words.split())
    space = "" if text.startswith(":") else " "
    assert (answer.code, answer.out, answer.err) == (2, "", f"gpu-ci catalog{space}{text}\n  hint: {hint}\n")
