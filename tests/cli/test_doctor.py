"""Tests of autosched doctor: what was found and which settings are in force."""

import json

import click
import pytest
from click.testing import CliRunner

from autosched.cli import doctor_command
from autosched.cli.doctor_command import environment, in_force, variables
from autosched.cli.main import main
from measure.doctor import Fact, Gpu, Report

H200 = Gpu(0, "NVIDIA H200", 90, 132, 2**37, 2**25, "h200")


def test_facts_and_what_is_in_force():
    result = CliRunner().invoke(main, ["doctor", "-f", "json"], env={"AUTOSCHED_TUNE_SEED": "4"})
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    names = [fact["name"] for fact in found["facts"]]
    assert {"python", "torch", "triton", "GPU", "C compiler"} <= set(names)
    assert found["target"] in ("h200", "a100")
    assert {"name": "AUTOSCHED_TUNE_SEED", "sets": "tune --seed is 4"} in found["environment"]


def test_table_marks_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    def examine() -> Report:
        return Report((Fact("GPU", "", "no CUDA device"),), (), ())

    monkeypatch.setattr(doctor_command, "examine", examine)
    lines = CliRunner().invoke(main, ["doctor"]).stdout.splitlines()
    assert lines[0] == "! GPU  missing: no CUDA device"
    assert lines[1:4] == [
        "in force",
        "  --device auto is model: no CUDA device: times come from a model of h200",
        "  --target is h200",
    ]


def test_a_gpu_is_in_force_with_its_own_target():
    machine = in_force(Report((), (H200,), ()))
    assert not isinstance(machine, str)
    assert (machine.device, machine.target.name) == ("cuda:0", "h200")


def test_a_gpu_that_no_target_describes_asks_for_one():
    gpu = Gpu(0, "NVIDIA H900", 90, 132, 2**37, 2**25, None)
    assert in_force(Report((), (gpu,), ())) == (
        "no target describes 'NVIDIA H900'; name the nearest with --target: a100, h200, mi300x"
    )


def test_a_variable_that_sets_nothing_is_told_the_nearest():
    held = {"AUTOSCHED_TUNE_TRAILS": "3", "HOME": "/", "AUTOSCHED_LOG_BEST_FORM": "json"}
    assert list(environment(main, held)) == [
        ("AUTOSCHED_LOG_BEST_FORM", "sets nothing, did you mean AUTOSCHED_LOG_BEST_FORMAT"),
        ("AUTOSCHED_TUNE_TRAILS", "sets nothing, did you mean AUTOSCHED_TUNE_TRIALS"),
    ]


def test_every_option_is_set_by_the_variable_of_its_name():
    found = dict(variables(click.Context(main, info_name="autosched"), "AUTOSCHED"))
    for variable, option in found.items():
        words = option.replace("--", "").replace("-", "_").split()
        assert variable == "_".join(["AUTOSCHED", *words]).upper()
    assert found["AUTOSCHED_TUNE_BUDGET_SECONDS"] == "tune --budget-seconds"
