"""How finals choose, where it is known what is right."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from autosched.experiment import finals, noise
from autosched.experiment.schema import FinalsFields
from autosched.landscape import Point
from autosched.spec import from_data
from measure.measurement import Conditions, Timed
from measure.timing import summarise
from search_space import target as targets
from search_space.rules import sketches
from search_space.sketch import Sketch

PLAN = FinalsFields(entrants=[1, 8], rounds=[25], draws=60)


@pytest.fixture(scope="module")
def sketch() -> Sketch:
    spec = {"op": "matmul", "m": 64, "n": 64, "k": 64, "dtype": "float16"}
    return sketches(from_data("a test", spec).workload, targets.load("h200"))[0]


def points(
    sketch: Sketch, times_us: Sequence[float], noise: float, drifts: Sequence[float] = ()
) -> list[Point]:
    """One schedule a time, its repeats with ``noise`` about it."""
    rng = np.random.default_rng(3)
    found = []
    for n, time_us in enumerate(times_us):
        repeats = summarise((time_us * np.exp(noise * rng.standard_normal(31))).tolist())
        seen = Conditions(drift=drifts[n]) if drifts else None
        outcome = Timed(repeats, None, None, 1.0, 0.1, conditions=seen)
        found.append(Point(sketch, (n,), str(n), outcome))
    return found


TIMES = [10.0 + 0.02 * n for n in range(20)]


def test_without_noise_every_way_picks_the_best(sketch: Sketch) -> None:
    found = finals.regrets(points(sketch, TIMES, 0.0), PLAN, [1.0], "a run")
    assert set(found) == {("best seen", 1, 0), ("sequential", 8, 25), ("interleaved", 8, 25)}
    assert all((held == 0).all() for held in found.values())


def test_turns_undo_the_drift_of_windows(sketch: Sketch) -> None:
    held = points(sketch, TIMES, 0.002)
    found = finals.regrets(held, PLAN, [0.98, 1.0, 1.02], "a run")
    means = {method: float(regrets.mean()) for (method, *_), regrets in found.items()}
    assert means["interleaved"] < 0.5 * means["sequential"]
    assert means["interleaved"] < 0.5 * means["best seen"]


def test_equal_words_give_equal_draws(sketch: Sketch) -> None:
    held = points(sketch, TIMES, 0.01)
    first, second, other = (
        finals.regrets(held, PLAN, [1.0], word) for word in ("a run", "a run", "another")
    )
    key = ("interleaved", 8, 25)
    assert first[key].tolist() == second[key].tolist()
    assert first[key].tolist() != other[key].tolist()


def test_drifts_are_over_the_median_of_those_that_were_read(sketch: Sketch) -> None:
    held = points(sketch, TIMES[:4], 0.0, [1.0, 1.02, 1.04, 0.0])
    assert finals.drifts(held) == pytest.approx([1 / 1.02, 1.0, 1.04 / 1.02])
    assert finals.drifts(points(sketch, TIMES[:4], 0.0)) == [1.0]


def test_nothing_timed_is_no_choice() -> None:
    assert finals.regrets([], PLAN, [1.0], "a run") == {}


def test_the_noise_floor_of_known_noise(sketch: Sketch) -> None:
    floor = noise.floor(points(sketch, [5.0 + n for n in range(400)], 0.01))
    # |N(0, s)| has median 0.674 s and 90th percentile 1.645 s; a median of 31 normal repeats has
    # s = 0.01 sqrt(pi / 2 / 31), two of them differ by sqrt(2) of it.
    s = 0.01 * (np.pi / 2 / 31) ** 0.5 * 2**0.5
    assert floor["halves_median"] == pytest.approx(0.674 * s, rel=0.2)
    assert floor["halves_p90"] == pytest.approx(1.645 * s, rel=0.2)
    assert floor["finals_count"] == 0


def test_the_shift_that_all_finals_have_is_told_from_noise(sketch: Sketch) -> None:
    held = points(sketch, [10.0, 20.0, 30.0], 0.0)
    later = [replace(p, finals_us=(1.02 * us,)) for p, us in zip(held, (10, 20, 31), strict=True)]
    floor = noise.floor(later)
    assert floor["finals_count"] == 3
    assert floor["finals_shift"] == pytest.approx(np.log(1.02))
    assert floor["finals_median"] == pytest.approx(0, abs=1e-12)
    assert floor["finals_p90"] == pytest.approx(0.8 * np.log(31 / 30), rel=1e-6)
