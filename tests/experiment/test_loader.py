"""From files to experiments: what is left open, and the place of each mistake."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.experiment.loader import Overrides, load, resolve
from autosched.experiment.plan import Experiment
from autosched.experiment.schema import json_schema
from autosched.spec import SpecError, yaml_file
from autosched.spec.document import Document

HEAD = "name: x\nquestion: Which?\n"
WORK = "device: model\nworkloads:\n  - {id: w, op: matmul, m: 64, n: 64, k: 64, dtype: float16}\n"
GOOD = HEAD + WORK


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(text: str, overrides: Overrides | None = None) -> Experiment:
    Path("x.yaml").write_text(text, encoding="utf-8")
    return load("x.yaml", overrides)


def test_what_is_left_open_has_its_default() -> None:
    held = read(GOOD)
    (arm,) = held.arms
    assert (arm.name, arm.strategy, arm.cost_model) == ("base", "evolution", "xgboost")
    assert (arm.batch, arm.prior, arm.model["objective"]) == (32, "none", "log_efficiency")
    assert held.seeds == tuple(range(10))
    assert held.checkpoints == (16, 32, 64, 128, 256, 320)


def test_an_arm_takes_over_what_the_base_says_of_the_same_model() -> None:
    text = (
        "base: {model: {bags: 2, eta: 0.3}, search: {epsilon: 0.2}}\n"
        "arms:\n"
        "  same: {model: {eta: 0.2}}\n"
        "  other: {cost_model: analytic}\n"
        "  random: {strategy: random}\n"
    )
    same, other, random = read(GOOD + text).arms
    assert (same.model["bags"], same.model["eta"], same.search["epsilon"]) == (2, 0.2, 0.2)
    assert (other.model, other.search["epsilon"]) == ({}, 0.2)
    assert (random.cost_model, random.model, random.search) == ("none", {}, {})


def test_one_factor_at_a_time_is_varied_from_the_base() -> None:
    text = (
        "vary:\n"
        "  model.objective: [log_efficiency, throughput]\n"
        "  batch: [16, 32]\n"
        "  model.dropped: {no-facts: [compiled], no-shape: [compiled, shape]}\n"
        "  search.epsilon: [0.0, 0.05]\n"
    )
    arms = {arm.name: arm for arm in read(GOOD + text).arms}
    assert list(arms) == ["base", "objective=throughput", "batch=16", "no-shape", "epsilon=0.0"]
    assert arms["no-shape"].model["dropped"] == ["compiled", "shape"]
    assert arms["batch=16"].model == arms["base"].model


def test_the_horizon_is_the_trials_that_are_run() -> None:
    assert read(GOOD).arms[0].search["horizon"] == 320
    assert read(GOOD, Overrides(trials=64)).arms[0].search["horizon"] == 64


def test_a_resolved_file_states_the_same_experiment(experiment: Experiment) -> None:
    text = yaml_file.write(experiment.to_data())
    Path("resolved.yaml").write_text(text, encoding="utf-8")
    assert load("resolved.yaml") == experiment
    assert yaml_file.write(load("resolved.yaml").to_data()) == text


@given(st.permutations(["guided", "learning", "random"]))
def test_only_keeps_the_order_of_the_file(names: list[str]) -> None:
    data = {
        "name": "x",
        "question": "Which?",
        "device": "model",
        "workloads": [{"id": "w", "op": "matmul", "m": 8, "n": 8, "k": 8, "dtype": "float16"}],
        "arms": {name: {"strategy": "random"} for name in ("guided", "learning", "random")},
    }
    held = resolve(Document("x", data), Overrides(only=tuple(names[:2])))
    assert [arm.name for arm in held.arms] == [n for n in data["arms"] if n in names[:2]]


WRONG = [
    ("", "x.yaml:1:1: is empty"),
    (HEAD + "sead: 3\n", "x.yaml:3:1: sead: unknown, did you mean seeds"),
    (HEAD, "x.yaml:1:1: landscapes: is missing, device replay wants some"),
    (HEAD + "landscapes: [nowhere]\n", "x.yaml:3:14: landscapes.0: 'nowhere' is unknown"),
    (
        HEAD + "landscapes: [no.landscape.xz]\n",
        "x.yaml:3:14: landscapes.0: no.landscape.xz: no suc",
    ),
    (HEAD + "landscapes: [3]\n", "x.yaml:3:14: landscapes.0: a shipped landscape's name, or a fi"),
    (GOOD + "landscapes: [a]\n", "x.yaml:6:13: landscapes: device model wants workloads, not lan"),
    (GOOD + "seeds: [1, 1]\n", "x.yaml:6:8: seeds: a list in which no seed stands twice is expect"),
    (
        GOOD + "seeds: true\n",
        "x.yaml:6:8: seeds: a number of seeds up to 10000, or a list of them,",
    ),
    (GOOD + "trials: 0\n", "x.yaml:6:9: trials: 0 is below 1"),
    (GOOD + "checkpoints: [8, 4]\n", "x.yaml:6:14: checkpoints: a list of numbers above 0, each"),
    (GOOD + "kind: serch\n", "x.yaml:6:7: kind: 'serch' is unknown, did you mean search"),
    (GOOD + "metrics: [ranking]\n", "x.yaml:6:11: metrics.0: 'ranking' is none of a search"),
    (GOOD + "target: h200\n", "x.yaml:6:9: target: is for device cuda"),
    (GOOD + "clock: {bilders: 2}\n", "x.yaml:6:9: clock.bilders: unknown, did you mean builders"),
    (
        GOOD + "base: {strategy: evolutoin}\n",
        "x.yaml:6:18: base.strategy: 'evolutoin' is unknown, did",
    ),
    (GOOD + "base: {cost_model: x}\n", "x.yaml:6:20: base.cost_model: 'x' is unknown"),
    (GOOD + "base: {model: {eta: 3}}\n", "x.yaml:6:21: base.model.eta: eta is a number from"),
    (GOOD + "base: {model: {eta: 3}}\narms: {a: {}}\n", "x.yaml:6:21: base.model.eta: eta is a nu"),
    (
        GOOD + "arms: {a: {search: {polsh: 1}}}\n",
        "x.yaml:6:28: arms.a.search.polsh: polsh is one of",
    ),
    (GOOD + "arms: {a: {btach: 1}}\n", "x.yaml:6:12: arms.a.btach: unknown, did you mean batch"),
    (GOOD + "arms: {a b: {}}\n", "x.yaml:6:8: arms.a b: 'a b' is not a name of"),
    (
        GOOD + "vary: {model.objectiv: [a]}\n",
        "x.yaml:6:25: vary.model.objectiv.0: objectiv is one of",
    ),
    (
        GOOD + "vary: {model.objective: [a]}\n",
        "x.yaml:6:26: vary.model.objective.0: objective is one",
    ),
    (GOOD + "vary: {bach: [1]}\n", "x.yaml:6:8: vary.bach: unknown, did you mean batch"),
    (GOOD + "vary: {batch: [x]}\n", "x.yaml:6:16: vary.batch.0: 'x'"),
    (GOOD + "vary: {batch: 3}\n", "x.yaml:6:15: vary.batch: a list of values, or a mapping from"),
    (
        HEAD + "device: model\nworkloads: [{op: matmul, m: 6, n: 6, k: 6, dtype: float16}]\n",
        "x.yaml:4:13: workloads.0.id: is missing",
    ),
    (
        HEAD
        + "device: model\nworkloads: [{id: w, op: matmul, m: 0, n: 6, k: 6, dtype: float16}]\n",
        "x.yaml:4:36: workloads.0.m: 0 is below 1",
    ),
]


@pytest.mark.parametrize(("text", "sentence"), WRONG, ids=lambda held: held[-40:])
def test_mistakes_name_their_place(text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(text)
    assert str(caught.value).startswith(sentence)


def test_a_landscape_that_has_changed_is_refused(landscapes: Path) -> None:
    text = f"landscapes: [{{name: a, file: {landscapes}/small.landscape.xz, sha256: {'a' * 64}}}]\n"
    with pytest.raises(
        SpecError, match=r"x.yaml:3:14: landscapes.0: a: its SHA-256 is .*, not aaaa"
    ):
        read(HEAD + text)


def test_editors_are_told_every_field_and_no_other() -> None:
    schema = json_schema()
    assert schema["additionalProperties"] is False
    assert {"name", "question", "landscapes", "arms", "vary", "seeds"} <= set(schema["properties"])
    assert schema["required"] == ["name", "question"]


def test_defaults_are_resolved_as_what_they_are_read_back_as() -> None:
    text = yaml_file.write(read(GOOD).to_data())
    assert yaml_file.write(read(text).to_data()) == text
