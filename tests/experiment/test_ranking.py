"""Models evaluated without a search: what is judged was never learnt, and figures are right."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from autosched.experiment.folder import Folder, RunName
from autosched.experiment.loader import load
from autosched.experiment.outcomes import Outcomes
from autosched.experiment.place import open_landscape
from autosched.experiment.plan import Experiment
from autosched.experiment.ranking import splits
from autosched.experiment.report import report
from autosched.experiment.run import run
from autosched.spec import SpecError
from cost_model.metrics import spearman

FILE = """\
name: ranks
question: Which model ranks best?
kind: ranking
landscapes: [small.landscape.xz, skinny.landscape.xz]
arms:
  analytic: {cost_model: analytic}
  trees: {cost_model: xgboost, model: {bags: 1, rounds: 4}}
  inherited: {cost_model: xgboost, prior: others, model: {bags: 1, rounds: 4, transfer: margin}}
seeds: 2
"""
ROWS = "ranking: {held_out: rows, rows: [8, 24], top: [1, 3]}\n"
ELSEWHERE = "ranking: {held_out: workload, rows: [8, all], top: [1, 3]}\n"


def read(landscapes: Path, text: str) -> Experiment:
    path = landscapes / "ranks.yaml"
    path.write_text(FILE + text, encoding="utf-8")
    return load(str(path))


@pytest.fixture(scope="module")
def ranked(landscapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranked") / "ranks"
    run(read(landscapes, ROWS), folder)
    return folder


def test_what_is_judged_was_not_learnt(landscapes: Path) -> None:
    experiment = read(landscapes, ROWS)
    small, skinny = (Outcomes.of(open_landscape(place)) for place in experiment.places)
    whole = small.dataset
    for split in splits(experiment, small, [], 1):
        assert len(split.learnt) == split.rows
        both = [*split.learnt.analytic.tolist(), *split.judged.analytic.tolist()]
        assert set(both) <= set(whole.analytic.tolist())
        assert np.isfinite(split.judged.log_efficiency).all()
        missing = int((~split.learnt.valid).sum()) + int(whole.valid.sum()) - len(split.judged)
        assert missing == split.rows
    for split in splits(read(landscapes, ELSEWHERE), small, [skinny], 1):
        assert set(split.learnt.workloads) == {skinny.workload.key}
        assert set(split.judged.workloads) == {small.workload.key}
        assert len(split.learnt) == (120 if split.rows == "all" else split.rows)
        assert len(split.judged) == whole.valid.sum()


def test_figures_are_those_of_the_scores(landscapes: Path, ranked: Path) -> None:
    experiment = read(landscapes, ROWS)
    outcomes = Outcomes.of(open_landscape(experiment.places[0]))
    for seed in experiment.seeds:
        lines = Folder(ranked).read_run(RunName("small", "analytic", seed))
        by_rows = {line["rows"]: line for line in lines if line["kind"] == "ranking"}
        for split in splits(experiment, outcomes, [], seed):
            line = by_rows[split.rows]
            wish = spearman(split.judged.analytic, split.judged.log_efficiency)
            assert line["spearman"] == pytest.approx(wish)
            best = np.argsort(-split.judged.analytic, kind="stable")[:3]
            lost = split.judged.log_efficiency.max() - split.judged.log_efficiency[best].max()
            assert line["top_3"] == pytest.approx(np.exp(-lost))
            assert line["judged"] == len(split.judged)


def test_tables_and_page_follow(ranked: Path, tmp_path: Path) -> None:
    folder = Folder(ranked)
    assert folder.tables() == ["importance", "ranking"]
    rows = folder.read_table("ranking")
    assert {row["landscape"] for row in rows} == {"small", "skinny", "all"}
    by = {(r["landscape"], r["arm"], r["rows"], r["metric"]): r["median"] for r in rows}
    names = ("small", "skinny", "all")
    for metric in ("top_1", "top_3", "pairwise", "spearman", "spearman_best"):
        assert all(by[name, "trees", "24", metric] for name in names)
    summary = folder.read_json("summary.json")
    found = summary["arms"]["trees"]["ranking"]
    assert found["rows"] == 24
    assert found["spearman"]["median"] == float(by["all", "trees", "24", "spearman"])
    text = report(ranked, tmp_path / "page.html").read_text("utf-8")
    parts = ("Ranking", "Feature importance", "Expected against measured", "Which model ranks best")
    assert [part for part in parts if part not in text] == []


def test_it_is_the_same_again(landscapes: Path, ranked: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(ranked, tmp_path / "copy"))
    name = RunName("skinny", "inherited", 1)
    path = Folder(folder).run_path(name)
    before = path.read_bytes()
    path.unlink()
    run(read(landscapes, ROWS), folder)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ranking: {rows: [8, all]}\n", "ranks.yaml:10:17: ranking.rows: 'all' leaves nothing"),
        ("ranking: {rows: [all, 8]}\n", "ranks.yaml:10:17: ranking.rows: a list of numbers"),
        ("metrics: [curves]\n", "ranks.yaml:10:11: metrics.0: 'curves' is none of a ranking"),
    ],
)
def test_mistakes_name_their_place(landscapes: Path, text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(landscapes, text)
    assert str(caught.value).startswith(f"{landscapes}/{sentence}")


def test_an_arm_that_inherits_wants_a_prior(landscapes: Path) -> None:
    path = landscapes / "wants.yaml"
    path.write_text(FILE.replace("prior: others, ", ""), encoding="utf-8")
    with pytest.raises(SpecError, match=r"transfer is margin, which wants prior: others"):
        load(str(path))


def test_too_few_rows_to_judge_are_refused(landscapes: Path, tmp_path: Path) -> None:
    experiment = read(landscapes, "ranking: {rows: [115]}\n")
    with pytest.raises(SpecError, match=r"ranking.rows: small: 115 rows learnt leave \d to judge"):
        run(experiment, tmp_path / "few")
