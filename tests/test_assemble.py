"""Tests of which concrete classes a run comes to."""

import pytest

from autosched import assemble
from autosched.assemble import Wishes, make_strategy
from autosched.machine import Machine, UnknownName, choose_machine
from autosched.te.operators import matmul
from autosched.tune.options import EFFORTS
from measure.doctor import Gpu
from measure.fake_device import FakeDevice
from measure.service import NoDevice
from search_space.target import load

H200 = Gpu(0, "NVIDIA H200", 90, 132, 2**37, 2**25, "h200")
A100 = Gpu(1, "NVIDIA A100-SXM4-80GB", 80, 108, 2**36, 2**25, "a100")
WORKLOAD = matmul(64, 64, 64, dtype="float16")


@pytest.mark.parametrize(
    ("device", "gpus", "chosen", "target"),
    [
        ("auto", (H200,), "cuda:0", "h200"),
        ("auto", (), "model", "h200"),
        ("auto", "the probe failed", "model", "h200"),
        ("cuda", (H200, A100), "cuda:0", "h200"),
        ("cuda:1", (H200, A100), "cuda:1", "a100"),
        ("model", (A100,), "model", "h200"),
    ],
)
def test_device_and_target(device: str, gpus, chosen: str, target: str):
    machine = choose_machine(device, None, lambda: gpus)
    assert (machine.device, machine.target.name) == (chosen, target)


def test_a_named_target_beats_the_gpu():
    assert choose_machine("auto", "a100", lambda: (H200,)).target.name == "a100"


@pytest.mark.parametrize(
    ("device", "gpus", "words"),
    [
        ("cuda", (), "device cuda: no CUDA device"),
        ("cuda", "the driver is too old", "device cuda: the driver is too old"),
        ("cuda:2", (H200, A100), "device cuda:2: there are 2, counted from 0"),
    ],
)
def test_a_gpu_that_is_not_there(device: str, gpus, words: str):
    with pytest.raises(NoDevice, match=words):
        choose_machine(device, None, lambda: gpus)


def test_the_model_is_chosen_without_asking_for_gpus():
    def probe():
        raise AssertionError("nobody should ask")

    assert choose_machine("model", None, probe).device == "model"


@pytest.mark.parametrize("name", assemble.STRATEGIES)
@pytest.mark.parametrize("model", assemble.COST_MODELS)
def test_every_name_is_something(name: str, model: str):
    wishes = Wishes(EFFORTS["quick"], strategy=name, cost_model=model)
    strategy = make_strategy(WORKLOAD, load("h200"), wishes)
    assert strategy.name == name
    assert len(strategy.ask(4)) == 4
    assert assemble.make_cost_model(model, 0).name == model


def test_a_name_of_nothing():
    with pytest.raises(UnknownName, match="cost model 'xgbost' is not known, did you mean xgboost"):
        assemble.make_cost_model("xgbost", 0)


def test_the_library_is_timed_before_a_search_where_there_is_one():
    machine = Machine("cuda:0", load("h200"), "")

    def tuner(library_us: float | None) -> assemble.Tuner:
        device = FakeDevice(lambda _: 1.0, library_us=library_us)
        return assemble.Tuner(None, machine, Wishes(EFFORTS["quick"]), device, None, None)

    assert tuner(12.5).library_us() == 12.5
    assert tuner(None).library_us() is None
