"""Files of landscapes: what is written is read back, and no damage goes unseen."""

import contextlib
import json
import lzma
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autosched.landscape import form, landscape
from autosched.landscape.form import BadLandscape, Head, Line
from autosched.landscape.synthetic import synthetic
from measure.disk import StorageError

SPEC = {"op": "matmul", "m": 256, "n": 512, "k": 1024, "dtype": "float16"}


def made_up(count: int) -> tuple[Head, tuple[Line, ...]]:
    return synthetic(SPEC, count, most_sketches=3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made-up.landscape.xz"


def test_what_is_written_is_read_back(path: Path) -> None:
    head, lines = made_up(12)
    form.write(path, head, lines)
    assert form.read(path) == (head, lines)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_equal_landscapes_have_equal_bytes() -> None:
    assert form.pack(*made_up(6)) == form.pack(*made_up(6))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_byte_is_seen(path: Path, data: st.DataObject) -> None:
    packed = bytearray(form.pack(*made_up(4)))
    place = data.draw(st.integers(0, len(packed) - 1))
    packed[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(packed)
    with contextlib.suppress(BadLandscape):
        assert form.read(path) == made_up(4)  # what the container does not need may change


@given(cut=st.integers(0, 400))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_a_file_cut_short_is_refused(path: Path, cut: int) -> None:
    packed = form.pack(*made_up(3))
    path.write_bytes(packed[: min(cut, len(packed) - 1)])
    with pytest.raises(BadLandscape):
        form.read(path)


def _edited(path: Path, line: int, **fields: object) -> None:
    """Write a landscape with fields of one line changed, under a checksum that is right."""
    head, lines = made_up(5)
    texts = lzma.decompress(form.pack(head, lines)).splitlines()[:-1]
    texts[line - 1] = json.dumps({**json.loads(texts[line - 1]), **fields}).encode()
    body = b"".join(text + b"\n" for text in texts)
    tail = form._Tail(lines=len(texts) - 1, sha256=form.hashlib.sha256(body).hexdigest())
    path.write_bytes(lzma.compress(body + tail.model_dump_json().encode() + b"\n"))


@pytest.mark.parametrize(
    ("line", "fields", "fact"),
    [
        (1, {"form": 99}, "its form is 99"),
        (1, {"gpu": 3}, "line 1: gpu"),
        (3, {"sketch": 7}, "line 3: sketch 7"),
        (3, {"choices": [1]}, "line 3: 1 values for"),
        (2, {"program": None}, "line 2: program"),
        (2, {"more": 1}, "line 2: more"),
    ],
)
def test_what_is_wrong_is_named(
    path: Path, line: int, fields: dict[str, object], fact: str
) -> None:
    _edited(path, line, **fields)
    with pytest.raises(BadLandscape, match=fact):
        form.read(path)


def test_a_schedule_that_stands_twice_is_refused(path: Path) -> None:
    head, lines = made_up(3)
    path.write_bytes(form.pack(head, (*lines, lines[0])))
    with pytest.raises(BadLandscape, match="line 5: the schedule stands there before"):
        form.read(path)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        form.read(tmp_path)


def test_schedules_are_found_in_the_space_of_today(path: Path) -> None:
    head, lines = made_up(20)
    form.write(path, head, lines)
    found = landscape.load(path)
    assert (len(found.points), found.left_out) == (20, 0)
    assert found.optimum_us == min(p.latency_us for p in found.points if p.latency_us is not None)
    assert {s.name for s in found.sketches} == {p.sketch.name for p in found.points}


def test_what_is_not_in_the_space_of_today_is_left_out_and_counted(path: Path) -> None:
    head, lines = made_up(10)
    strange = tuple(3 for _ in lines[0].choices)
    lines = (*lines[1:], lines[0].model_copy(update={"choices": strange}))
    gone = head.sketches[2].model_copy(update={"name": "contraction.of.old"})
    head = head.model_copy(update={"sketches": (*head.sketches[:2], gone)})
    form.write(path, head, lines)
    found = landscape.load(path)
    of_gone = sum(line.sketch == 2 for line in lines)
    assert found.left_out == 1 + of_gone - (lines[-1].sketch == 2)


def test_the_workload_of_the_spec_is_the_one_measured(path: Path) -> None:
    head, lines = made_up(3)
    form.write(path, head.model_copy(update={"spec": {**head.spec, "m": 257}}), lines)
    with pytest.raises(BadLandscape, match="another workload"):
        landscape.load(path)


def test_names_that_are_not_shipped_are_told_those_that_are() -> None:
    with pytest.raises(BadLandscape, match="none of"):
        landscape.load("no-such-landscape")
