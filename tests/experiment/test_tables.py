"""The tables of an experiment, against what its runs say and against sums by hand."""

from pathlib import Path
from statistics import median

import numpy as np
import pytest

from autosched.experiment.curve import Curve
from autosched.experiment.folder import Folder, RunName
from autosched.experiment.outcomes import Outcomes
from autosched.experiment.place import open_landscape
from autosched.experiment.plan import Experiment
from autosched.experiment.tables import evaluations
from cost_model.metrics import expected_random_best


@pytest.fixture(scope="module")
def folder(done: Path) -> Folder:
    return Folder(done)


def curves(folder: Folder, experiment: Experiment, place: str, arm: str) -> list[Curve]:
    names = [RunName(place, arm, seed) for seed in experiment.seeds]
    return [Curve.of(name, folder.read_run(name)) for name in names]


def rows(folder: Folder, table: str, **wanted: object) -> list[dict[str, str]]:
    found = folder.read_table(table)
    return [row for row in found if all(row[k] == str(v) for k, v in wanted.items())]


def test_regret_is_the_median_over_seeds(folder: Folder, experiment: Experiment) -> None:
    for place in ("small", "skinny"):
        for mark in experiment.checkpoints:
            held = curves(folder, experiment, place, "random")
            wish = median(float(curve.after(mark)) - 1 for curve in held)
            (row,) = rows(
                folder, "regret", landscape=place, arm="random", axis="evaluations", at=mark
            )
            assert float(row["median"]) == pytest.approx(wish)


def test_all_is_the_geometric_mean_of_a_seeds_ratios(
    folder: Folder, experiment: Experiment
) -> None:
    pairs = zip(
        curves(folder, experiment, "small", "guided"),
        curves(folder, experiment, "skinny", "guided"),
        strict=True,
    )
    wish = median(float(a.after(32) * b.after(32)) ** 0.5 - 1 for a, b in pairs)
    (row,) = rows(folder, "regret", landscape="all", arm="guided", axis="evaluations", at=32)
    assert float(row["median"]) == pytest.approx(wish)


def test_random_search_is_calculated_from_the_landscape(
    folder: Folder, experiment: Experiment
) -> None:
    outcomes = Outcomes.of(open_landscape(experiment.places[0]))
    chance = expected_random_best(outcomes.random_us, 32)
    (row,) = rows(folder, "regret", landscape="small", arm="random", axis="evaluations", at=16)
    assert float(row["random"]) == pytest.approx(chance[15] / outcomes.optimum_us - 1)
    assert len(outcomes.random_us) == 120
    assert outcomes.random_us.max() == max(p.latency_us for p in outcomes.points if p.latency_us)


def test_ratios_are_paired_by_seed_with_the_first_arm(
    folder: Folder, experiment: Experiment
) -> None:
    pairs = zip(
        curves(folder, experiment, "small", "random"),
        curves(folder, experiment, "small", "guided"),
        strict=True,
    )
    wish = median(float(a.after(32) / b.after(32)) for a, b in pairs)
    (row,) = rows(folder, "regret", landscape="small", arm="random", axis="evaluations", at=32)
    assert float(row["ratio"]) == pytest.approx(wish)
    for row in rows(folder, "regret", landscape="small", arm="guided", at=32):
        assert float(row["ratio"]) == 1


def test_runs_that_never_reach_count_as_longer_than_any_other(
    folder: Folder, experiment: Experiment
) -> None:
    for row in rows(folder, "reach", within=0.02):
        names = ["small", "skinny"] if row["landscape"] == "all" else [row["landscape"]]
        held = [c for n in names for c in curves(folder, experiment, n, row["arm"])]
        counts = sorted(curve.reach(0.02)[0] for curve in held)
        assert int(row["reached"]) == sum(count < float("inf") for count in counts)
        middle = median(counts)
        assert row["evaluations_median"] == ("" if middle == float("inf") else str(middle))


def test_scores_are_0_for_what_chance_expects_and_1_for_the_best(
    folder: Folder, experiment: Experiment
) -> None:
    outcomes = Outcomes.of(open_landscape(experiment.places[0]))
    chance = expected_random_best(outcomes.random_us, 32) / outcomes.optimum_us
    held = curves(folder, experiment, "small", "learning")
    ratios = np.array([curve.after(8) for curve in held])
    wish = np.median((chance[7] - ratios) / (chance[7] - 1))
    (row,) = rows(folder, "score", landscape="small", arm="learning", at=8)
    assert float(row["median"]) == pytest.approx(wish)


def test_the_census_counts_what_runs_tried(folder: Folder, experiment: Experiment) -> None:
    held = curves(folder, experiment, "small", "random")
    (row,) = rows(folder, "failures", landscape="small", arm="random", kind="all")
    assert int(row["failed"]) == sum(sum(curve.failures.values()) for curve in held)
    assert int(row["trials"]) == sum(len(curve.trials) for curve in held)


def test_finals_and_noise_say_something_of_every_landscape(folder: Folder) -> None:
    methods = {(row["landscape"], row["method"]) for row in rows(folder, "finals")}
    names = ("best seen", "sequential", "interleaved")
    assert methods == {(place, method) for place in ("small", "skinny") for method in names}
    for row in rows(folder, "noise"):
        # Repeats of made-up times vary by half a percent: halves of nine by about 0.2 %.
        assert 0.0005 < float(row["halves_median"]) < 0.004


def test_curves_are_dense_first_and_end_at_the_last_trial() -> None:
    counts = evaluations(320)
    assert counts[:24].tolist() == list(range(1, 25))
    assert counts[-1] == 320
    assert len(counts) < 120
    assert evaluations(3).tolist() == [1, 2, 3]
