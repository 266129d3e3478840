"""Runs into a folder: the same whatever way they were made, resumed, refused where they differ."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from autosched.experiment import run as run_module
from autosched.experiment.components import strategy_of
from autosched.experiment.difference import compare
from autosched.experiment.error import BadFolder
from autosched.experiment.folder import Folder, RunName
from autosched.experiment.loader import Overrides, load
from autosched.experiment.outcomes import Outcomes
from autosched.experiment.place import open_landscape
from autosched.experiment.plan import Experiment
from autosched.experiment.run import RunDone, run, run_names
from autosched.experiment.search import search
from autosched.tune.course import Course
from measure.measurement import Timed


@pytest.fixture
def copy(done: Path, tmp_path: Path) -> Path:
    """The folder of the experiment, to be changed."""
    return Path(shutil.copytree(done, tmp_path / "copy"))


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """What is compared: everything but timings."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "timings.jsonl":
            yield str(path.relative_to(folder)), path.read_bytes()


def test_it_holds_a_file_a_run_and_what_was_asked_for(experiment: Experiment, done: Path) -> None:
    names = [name for name, _ in files(done)]
    tables = ("curves", "failures", "finals", "noise", "reach", "regret", "runs", "score")
    assert set(names) == {
        "resolved.yaml",
        "versions.json",
        "summary.json",
        *(f"tables/{name}.csv" for name in tables),
        *(f"runs/{name}.jsonl" for name in map(str, run_names(experiment))),
    }
    assert load(str(done / "resolved.yaml")) == experiment


def test_processes_leave_no_trace(experiment: Experiment, done: Path, copy: Path) -> None:
    folder = Folder(copy)
    for name in [name for name in run_names(experiment) if name.arm != "learning"][:4]:
        folder.run_path(name).unlink()
    run(experiment, copy, jobs=2)
    assert dict(files(copy)) == dict(files(done))


def test_what_is_done_is_not_done_again(experiment: Experiment, copy: Path) -> None:
    before = dict(files(copy))
    folder = Folder(copy)
    missing = run_names(experiment)[-2:]
    for name in missing:
        folder.run_path(name).unlink()
    events: list[RunDone] = []
    run(experiment, copy, events=events.append)
    assert [event.name for event in events] == missing
    total = len(run_names(experiment))
    assert [(event.done, event.total) for event in events] == [(total - 1, total), (total, total)]
    assert dict(files(copy)) == before


def test_an_interrupt_keeps_what_is_done(
    experiment: Experiment, done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, held = tmp_path / "cut", []

    def interrupted(*arguments: object) -> object:
        if len(held) == 4:
            raise KeyboardInterrupt
        held.append(arguments)
        return search(*arguments)

    monkeypatch.setattr(run_module, "search", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(experiment, folder)
    assert Folder(folder).runs() == sorted(run_names(experiment)[:4])
    kept = dict(files(folder))
    assert kept.items() < dict(files(done)).items()


def test_another_experiment_is_refused_by_name(experiment: Experiment, copy: Path) -> None:
    other = load(str(copy / "resolved.yaml"), Overrides(trials=8))
    with pytest.raises(
        BadFolder, match=r"resolved.yaml: is of another experiment: checkpoints differs"
    ):
        run(other, copy)


def test_other_versions_are_refused_by_name(experiment: Experiment, copy: Path) -> None:
    path = copy / "versions.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "numpy": "0.1"}))
    with pytest.raises(BadFolder, match=r"versions.json: numpy was 0.1 and is "):
        run(experiment, copy)


def test_a_folder_of_other_things_is_left_alone(experiment: Experiment, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(BadFolder, match=r"holds other things and no resolved.yaml"):
        run(experiment, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_run_is_what_the_course_proposes_and_the_landscape_recorded(
    experiment: Experiment, done: Path
) -> None:
    place, arm = experiment.places[0], experiment.arms[0]
    outcomes = Outcomes.of(open_landscape(place))
    head, *trials, stop = Folder(done).read_run(RunName(place.name, arm.name, 1))
    assert head["optimum_us"] == outcomes.optimum_us
    assert (stop["reason"], stop["trials"]) == ("trials", experiment.trials)
    assert [t["trial"] for t in trials] == list(range(experiment.trials))
    for trial in trials:
        outcome = outcomes.by_key[trial["sketch"], tuple(trial["choices"])].outcome
        assert trial["us"] == (outcome.latency_us if isinstance(outcome, Timed) else None)
        assert (trial["failure"] is None) == isinstance(outcome, Timed)
    # Asked batch by batch, each told what the last but one brought.
    strategy = strategy_of(arm, 1, outcomes, [])
    course = Course(outcomes.workload, outcomes.target, strategy, arm.batch, outcomes.fingerprint)
    waiting = [course.propose(), course.propose()]
    seen = []
    while len(seen) < experiment.trials:
        batch = waiting.pop(0)
        seen += [list(p.candidate.key[1]) for p in batch.proposals]
        told = {p.number: outcomes.by_key[p.candidate.key].outcome for p in batch.proposals}
        course.tell(batch, told)
        waiting.append(course.propose())
    assert [t["choices"] for t in trials] == seen[: experiment.trials]


def test_a_budget_and_patience_end_a_run(landscapes: Path, tmp_path: Path) -> None:
    text = (landscapes / "three.yaml").read_text()
    bounded = landscapes / "bounded.yaml"
    bounded.write_text(text + "budget_s: 3.0\n")
    experiment = load(str(bounded), Overrides(seeds=1, only=("random",), trials=120))
    run(experiment, tmp_path / "bounded")
    for name in run_names(experiment):
        *_, stop = Folder(tmp_path / "bounded").read_run(name)
        assert stop["reason"] == "budget"
        assert 8 <= stop["trials"] < 120


def test_equal_folders_are_identical_wherever_landscapes_lie(done: Path, copy: Path) -> None:
    resolved = copy / "resolved.yaml"
    text = resolved.read_text()
    assert "file: /" in text
    resolved.write_text(text.replace("file: /", "file: /elsewhere/"))
    (copy / "timings.jsonl").unlink()
    assert compare(done, copy).identical


def test_the_first_trial_that_differs_is_named(done: Path, copy: Path) -> None:
    path = copy / "runs/skinny/random/2.jsonl"
    lines = path.read_text().splitlines()
    for n in (6, 9):
        lines[n] = json.dumps({**json.loads(lines[n]), "us": 1.0})
    path.write_text("\n".join(lines) + "\n")
    (copy / "tables/reach.csv").write_text("landscape\nhere\n")
    verdict = compare(done, copy)
    first, second = verdict.differences
    assert (first.part, first.run, first.trial) == ("runs", "skinny/random/2", 5)
    assert first.fact.startswith("us ")
    assert first.fact.endswith(" and 1.0")
    assert (second.part, second.run) == ("tables/reach.csv", None)
    assert second.fact.startswith("line 2: ")


@pytest.mark.parametrize(
    ("part", "what", "fact"),
    [
        ("runs/small/random/0.jsonl", "runs", "is not in "),
        ("tables/score.csv", "tables/score.csv", "is not in "),
        ("summary.json", "summary.json", "is not in "),
    ],
)
def test_what_is_missing_is_named(done: Path, copy: Path, part: str, what: str, fact: str) -> None:
    (copy / part).unlink()
    (difference,) = compare(done, copy).differences
    assert difference.part == what
    assert difference.fact.startswith(fact)


def test_versions_are_noted(done: Path, copy: Path) -> None:
    path = copy / "versions.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "numpy": "0.1"}))
    verdict = compare(done, copy)
    assert verdict.identical
    assert len(verdict.notes) == 1
    assert verdict.notes[0].endswith(" and 0.1")


@pytest.mark.parametrize("name", ["resolved.yaml", "versions.json"])
def test_what_is_no_folder_of_an_experiment_is_refused(done: Path, copy: Path, name: str) -> None:
    (copy / name).write_text("]")
    with pytest.raises(BadFolder, match=name):
        compare(done, copy)
    (copy / name).unlink()
    with pytest.raises(BadFolder):
        compare(done, copy)
