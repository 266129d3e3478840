"""Searches of several landscapes that take turns under one bound."""

from itertools import groupby
from pathlib import Path

import pytest

from autosched.experiment.curve import Curve
from autosched.experiment.folder import Folder, RunName
from autosched.experiment.loader import load
from autosched.experiment.plan import SUITE
from autosched.experiment.report import report
from autosched.experiment.run import run
from autosched.spec import SpecError

FILE = """\
name: turns
question: Who should have the next turn?
kind: suite
landscapes: [small.landscape.xz, skinny.landscape.xz]
base: {strategy: random, batch: 4}
vary: {scheduler: [gradient, round-robin]}
seeds: 2
trials: 20
checkpoints: [8, 16]
"""


@pytest.fixture(scope="module")
def folder(landscapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    (landscapes / "turns.yaml").write_text(FILE, encoding="utf-8")
    path = tmp_path_factory.mktemp("turns") / "turns"
    run(load(str(landscapes / "turns.yaml")), path)
    return Folder(path)


def test_all_landscapes_share_the_bound(folder: Folder) -> None:
    for name in folder.runs():
        head, *trials, stop = folder.read_run(name)
        assert (name.landscape, stop["reason"], stop["trials"]) == (SUITE, "trials", 40)
        assert [t["trial"] for t in trials] == list(range(40))
        assert len(head["workload"]) == 2
        assert {t["task"] for t in trials} == {0, 1}


def test_in_a_round_turns_alternate(folder: Folder) -> None:
    _, *trials, _ = folder.read_run(RunName(SUITE, "scheduler=round-robin", 0))
    turns = [task for task, _ in groupby(t["task"] for t in trials)]
    assert turns == [n % 2 for n in range(len(turns))]


def test_the_ratio_is_of_sums(folder: Folder) -> None:
    name = RunName(SUITE, "base", 1)
    lines = folder.read_run(name)
    curve = Curve.of(name, lines)
    trials = lines[1:-1]
    for count in (1, 8, 17, 40):
        best = [
            min((t["us"] for t in trials[:count] if t["task"] == n and t["us"]), default=None)
            for n in (0, 1)
        ]
        known = None not in best
        wish = sum(us or 0.0 for us in best) / curve.optimum_us if known else float("inf")
        assert float(curve.after(count)) == pytest.approx(wish)
    assert float(curve.at(1e6)) == pytest.approx(float(curve.after(40)))


def test_tables_and_page_are_of_the_suite(folder: Folder, tmp_path: Path) -> None:
    assert folder.tables() == ["curves", "reach", "regret", "runs"]
    assert {row["landscape"] for row in folder.read_table("regret")} == {SUITE}
    assert folder.read_json("summary.json")["trials"] == 40
    text = report(folder.path, tmp_path / "page.html").read_text("utf-8")
    assert "scheduler=round-robin" in text
    assert "(random, calculated)" not in text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("base: {scheduler: gradent}\n", "base.scheduler: 'gradent' is unknown, did you mean grad"),
        ("base: {turns: {alpha: 3}}\n", "base.turns: gradient: alpha is a bounded number"),
    ],
)
def test_a_wrong_scheduler_is_refused(landscapes: Path, text: str, sentence: str) -> None:
    path = landscapes / "wrong.yaml"
    head = "\n".join(FILE.splitlines()[:4])
    path.write_text(f"{head}\n{text}", encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load(str(path))
    assert f": {sentence}" in str(caught.value)
