"""A prior survives its file, starts models where it pays, and is refused where it is none."""

import hashlib
import json
import lzma
import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from autosched.te.operators import matmul
from cost_model import prior as priors
from cost_model.analytic_model import AnalyticModel, predict_us
from cost_model.dataset import Dataset, Observation, build
from cost_model.gate import FOLDS, folds_of
from cost_model.metrics import spearman
from cost_model.prior import Prior, StalePrior, from_bytes, to_bytes
from cost_model.settings import BadPrior, ModelSettings
from cost_model.xgboost_model import XGBoostModel
from search_space import target as targets
from search_space.rules import sketches
from search_space.sample import random_choices

H200 = targets.load("h200")
EARLIER = [matmul(2048, 2048, 1024, dtype="float16"), matmul(512, 1024, 4096, dtype="float16")]
NOW = matmul(1024, 1024, 1024, dtype="float16")


def bent(choices: dict[str, int]) -> float:
    """What the analytic model does not know: stages help, eight warps harm."""
    return (0.67 if choices["stages"] >= 4 else 1) * (1.33 if choices["warps"] == 8 else 1)


def opposite(choices: dict[str, int]) -> float:
    return 1 / bent(choices)


def observed(workload, count: int, seed: int, law: Callable = bent) -> list[Observation]:
    rng, rows, space = Random(seed), [], sketches(workload, H200)[:6]
    for _ in range(count):
        sketch = rng.choice(space)
        choices = random_choices(sketch, H200, rng)
        assert choices is not None
        us = predict_us(sketch, np.array([[choices[n] for n in sketch.names]]), H200)[0]
        rows.append(Observation(sketch, choices, float(us) * law(choices)))
    return rows


def earlier(law: Callable = bent) -> Dataset:
    return build([row for w in EARLIER for row in observed(w, 150, 1, law)], H200)


def built(rows: Dataset, threads: int = 1) -> Prior:
    return priors.build(rows, "h200", threads, ModelSettings(optimism=0.0, bags=2, rounds=40))


@pytest.fixture(scope="module")
def prior() -> Prior:
    return built(earlier())


@pytest.fixture(scope="module")
def misleading() -> Prior:
    return built(earlier(opposite))


TOLD = build(observed(NOW, 48, 2), H200)
REST = build(observed(NOW, 150, 3), H200)


def rank(settings: ModelSettings, prior: Prior | None, rows: int) -> float:
    made = XGBoostModel(0, settings, prior)
    if rows:
        made.fit(TOLD.take(np.arange(rows)))
    return spearman(made.score_table(REST.features, NOW.key), REST.log_efficiency)


def test_a_prior_survives_its_file(prior: Prior) -> None:
    data = to_bytes(prior)
    back = from_bytes(data)
    assert to_bytes(back) == data
    assert (back.digest, back.target) == (prior.digest, "h200")
    assert back.dataset.workloads == prior.dataset.workloads
    np.testing.assert_array_equal(
        back.log_efficiency(REST.features), prior.log_efficiency(REST.features)
    )


def test_equal_rows_give_equal_bytes(prior: Prior) -> None:
    assert to_bytes(built(earlier(), threads=2)) == to_bytes(prior)


def changed(data: bytes, **head: object) -> bytes:
    line, _, rest = lzma.decompress(data[:-32]).partition(b"\n")
    body = json.dumps({**json.loads(line), **head}).encode() + b"\n" + rest
    return lzma.compress(body) + hashlib.sha256(body).digest()


def test_trees_of_another_xgboost_are_grown_again(prior: Prior) -> None:
    trees: list[int] = []
    body = lzma.decompress(to_bytes(prior)[:-32])
    cut = sum(json.loads(body.partition(b"\n")[0])["trees"])
    short = body[:-cut]
    line, _, rest = short.partition(b"\n")
    held = {**json.loads(line), "xgboost": "0.1", "trees": trees}
    whole = json.dumps(held).encode() + b"\n" + rest
    back = from_bytes(lzma.compress(whole) + hashlib.sha256(whole).digest())
    np.testing.assert_array_equal(
        back.log_efficiency(REST.features), prior.log_efficiency(REST.features)
    )


def test_what_is_no_prior_is_refused(prior: Prior, tmp_path) -> None:
    data = to_bytes(prior)
    with pytest.raises(StalePrior, match="its features are of schema '000', and those of this"):
        from_bytes(changed(data, schema="000"))
    for bad in (b"", b"text", data[:-1], data[:100], changed(data, rows=3), changed(data, form=9)):
        with pytest.raises(BadPrior):
            from_bytes(bad)
    path = tmp_path / "x.prior.xz"
    path.write_bytes(data[:-1])
    with pytest.raises(BadPrior, match=r"x\.prior\.xz: it was cut short"):
        priors.load(path)
    with pytest.raises(BadPrior, match="a prior takes 64 rows with a time, not 48"):
        priors.build(TOLD, "h200")


@pytest.mark.parametrize("transfer", ["pooled", "margin", "gated"])
def test_a_prior_of_the_same_law_is_worth_measurements(prior: Prior, transfer) -> None:
    alone = rank(ModelSettings(rounds=40), None, 16)
    held = ModelSettings(transfer=transfer, rounds=40)
    assert rank(held, prior, 16) > max(alone, 0.97)
    if transfer != "pooled":
        assert rank(held, prior, 0) > 0.97


def test_without_transfer_a_prior_is_not_asked(prior: Prior) -> None:
    held = ModelSettings(rounds=40)
    assert rank(held, prior, 16) == rank(held, None, 16)
    assert "prior" not in XGBoostModel(0, held, prior).settings
    assert XGBoostModel(0, replace(held, transfer="margin"), prior).settings["prior"]


def test_a_prior_that_misleads_loses_its_place(misleading: Prior) -> None:
    alone = rank(ModelSettings(rounds=40), None, 48)
    gated = rank(ModelSettings(rounds=40, transfer="gated"), misleading, 48)
    margin = rank(ModelSettings(rounds=40, transfer="margin"), misleading, 48)
    assert gated == alone
    assert margin < alone
    assert rank(ModelSettings(rounds=40, transfer="gated"), misleading, 16) < alone


def test_a_prior_counts_for_less_with_every_row_told(misleading: Prior) -> None:
    held = ModelSettings(rounds=1, bags=1, transfer="margin")
    few, many = (rank(held, misleading, rows) for rows in (8, 48))
    analytic = AnalyticModel()
    assert few < many < spearman(REST.analytic, REST.log_efficiency) + 0.02
    assert analytic.name == "analytic"


def test_a_frozen_prior_learns_where_its_predictions_lie_and_nothing_else(prior: Prior) -> None:
    held = ModelSettings(rounds=10, transfer="margin", update="frozen")
    assert rank(held, prior, 48) == pytest.approx(rank(held, prior, 0), abs=1e-9)


def test_folds_never_split_rows_that_differ_in_little() -> None:
    rows = observed(NOW, 60, 4)
    twins = [replace(row, choices={**row.choices, "stages": 1}) for row in rows]
    first, second = (folds_of(build(held, H200).features) for held in (rows, twins))
    both = folds_of(build([*rows, *twins], H200).features)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(both[:60], both[60:])
    assert set(both.tolist()) == set(range(FOLDS))


def test_the_prior_without_a_workload_is_that_of_the_others(prior: Prior) -> None:
    one = built(build(observed(EARLIER[1], 150, 1), H200))
    without = prior.without(EARLIER[0].key)
    np.testing.assert_array_equal(
        without.log_efficiency(REST.features), one.log_efficiency(REST.features)
    )
    assert prior.without("another") is prior
    assert not math.isnan(float(without.log_efficiency(REST.features)[0]))
