"""Experiments on a GPU, which a fake device stands for here."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autosched import assemble
from autosched.experiment import live
from autosched.experiment.folder import Folder, RunName
from autosched.experiment.loader import load
from autosched.experiment.report import report
from autosched.experiment.run import run
from autosched.machine import Machine
from autosched.spec import SpecError
from measure.doctor import cuda_devices
from measure.fake_device import FakeDevice
from measure.measurement import Failed, Failure
from measure.service import NoDevice
from search_space import target as targets
from search_space.program import Program

FILE = """\
name: live
question: Does it hold on a GPU?
device: cuda
workloads: [{id: small, op: matmul, m: 64, n: 64, k: 64, dtype: float16}]
arms:
  guided: {cost_model: analytic, batch: 8, search: {population: 32, generations: 1}}
  random: {strategy: random, batch: 8}
seeds: 2
trials: 24
checkpoints: [8, 16]
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "live.yaml").write_text(FILE, encoding="utf-8")
    return str(tmp_path / "live.yaml")


def outcome(program: Program) -> float | Failed:
    rng = random.Random(program.fingerprint)
    if rng.random() < 0.2:
        return Failed(Failure.COMPILE, "planted")
    return rng.lognormvariate(2.0, 0.5)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: Any, **__: Any) -> FakeDevice:
        return FakeDevice(outcome, target_name="h200")

    def chosen(device: str, target: str | None, **_: Callable[..., Any]) -> Machine:
        return Machine("cuda:0", targets.load(target or "h200"), f"{device} as a test has it")

    monkeypatch.setattr(assemble, "open_service", opened)
    monkeypatch.setattr(live, "choose_machine", chosen)


@pytest.mark.usefixtures("gpu")
def test_the_best_known_is_the_best_that_any_run_found(file: str, tmp_path: Path) -> None:
    experiment, out = load(file), tmp_path / "out"
    summary = run(experiment, out)
    folder = Folder(out)
    assert folder.tables() == ["curves", "reach", "regret", "runs"]
    found = {}
    for row in folder.read_table("runs"):
        head, *trials, stop = folder.read_run(
            RunName(row["landscape"], row["arm"], int(row["seed"]))
        )
        assert (head["optimum_us"], stop["trials"], len(trials)) == (None, 24, 24)
        assert all(0 <= t["at_s"] <= stop["at_s"] for t in trials)
        found[row["arm"], row["seed"]] = min(t["us"] for t in trials if t["us"])
    best = min(found.values())
    for row in folder.read_table("runs"):
        wish = found[row["arm"], row["seed"]] / best - 1
        assert float(row["regret"]) == pytest.approx(wish)
    assert list(summary["arms"]) == ["guided", "random"]
    assert summary["predicted"] is False
    assert "(random, calculated)" not in report(out).read_text("utf-8")


def test_without_a_gpu_nothing_is_run(file: str, tmp_path: Path) -> None:
    if not isinstance(cuda_devices(), str) and cuda_devices():
        pytest.skip("there is a GPU")
    with pytest.raises(NoDevice):
        run(load(file), tmp_path / "out")
    assert not (tmp_path / "out" / "runs").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("kind: ranking\n", "device: a ranking is of recorded or made-up outcomes, not cuda"),
        ("metrics: [noise]\n", "metrics.0: 'noise' is none of a run on a GPU"),
        ("base: {prior: others}\n", "guided: on a GPU nothing is known of others before"),
    ],
)
def test_what_a_gpu_cannot_tell_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "live.yaml"
    path.write_text(FILE + text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load(str(path))
    assert sentence in str(caught.value)
