"""Every truncation and every flipped bit of a log is found, named, and costs one record."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
import zlib
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from measure import log
from measure.disk import Disk, StorageError, filesystem
from measure.log import Damage, LogWriter, line_of, parse, read
from measure.measurement import (
    Cause,
    CompiledFacts,
    Conditions,
    Evidence,
    Failed,
    Failure,
    Measurement,
    Timed,
    Timing,
)
from measure.record import (
    AnyRecord,
    Entrant,
    FinalRecord,
    Provenance,
    RunRecord,
    StopRecord,
    TimingText,
    TrialRecord,
    WorkloadText,
    evidence_of,
    facts_of,
    status_of,
)

PROVENANCE = Provenance(
    autosched="0.1.0", torch="2.11", triton="3.6.0", driver="580", seed=0, time="2025-01-01"
)
WORKLOAD = WorkloadText(key="0123456789abcdef", text="axes i0=1:spatial\n", label="tiny")
TIMED = Timed(
    Timing(10.5, 10.4, 10.75, (10.4, 10.5, 10.75)),
    CompiledFacts(64, 0, 1024, 4096, {"HGMMA": 4}),
    Evidence("torch", (0, 1), 0.5, 1e-3, 1e-4),
    0.5,
    0.02,
)
FAILED = Failed(Failure.COMPILE, 'said "no" \\ in café', None, 0.25)


def trial(number: int, measurement: Measurement = TIMED, **changes: object) -> TrialRecord:
    fields = {
        "run": "r1",
        "trial": number,
        "round": number // 2,
        "workload": WORKLOAD,
        "target": "h200",
        "gpu": "NVIDIA H200",
        "schedule": {"sketch": "hand", "choices": {}, "steps": [["Split", {"axis": "i"}]]},
        "program": f"p{number}",
        "rendering_version": 1,
        "measurement": status_of(measurement),
        "facts": facts_of(measurement),
        "evidence": evidence_of(measurement),
        "provenance": PROVENANCE,
    }
    return TrialRecord(**{**fields, **changes})  # type: ignore[arg-type]


RUN = RunRecord(
    run="r1",
    spec={"op": "matmul"},
    options={"trials": 2},
    device="cuda",
    target="h200",
    gpu="NVIDIA H200",
    provenance=PROVENANCE,
)
STOP = StopRecord(run="r1", reason="done", trials=2, provenance=PROVENANCE)
RECORDS = [RUN, trial(0), trial(1, FAILED), STOP]
LINES = [line_of(record) for record in RECORDS]
LOG = b"".join(LINES)


def latency(us: float) -> Timed:
    return Timed(Timing(us, us, us, (us,)), None, TIMED.evidence, 0.0, 0.0)


def final(best: int, *entrants: tuple[int, float]) -> FinalRecord:
    made = tuple(
        Entrant(trial=n, program=f"p{n}", timing=TimingText.of(Timing(us, us, us, (us,))))
        for n, us in entrants
    )
    return FinalRecord(
        run="r1",
        workload=WORKLOAD,
        target="h200",
        gpu="NVIDIA H200",
        entrants=made,
        library=None,
        best=best,
        ties=(best,),
        rounds=50,
        seeds=(1, 2),
        provenance=PROVENANCE,
    )


def test_round_trip_of_every_kind() -> None:
    records = [*RECORDS, final(0, (0, 1.5), (1, 2.5))]
    contents = parse(b"".join(line_of(record) for record in records))
    assert list(contents.records) == records
    assert contents.damage == ()
    assert [t.measured() for t in contents.trials] == [TIMED, FAILED]


def test_lines_are_ascii_and_the_checksum_is_over_the_raw_record() -> None:
    for line in LINES:
        assert line.isascii()
        assert line.count(b"\n") == 1
        raw = line[len(b'{"crc":"01234567","rec":') : -2]
        assert line.startswith(b'{"crc":"%08x","rec":{' % zlib.crc32(raw))
        assert json.loads(line)["rec"] == json.loads(raw)


def check_truncations(records: Sequence[AnyRecord], sizes: Iterable[int]) -> None:
    """A log cut anywhere holds what was whole by then and names the rest."""
    lines = [line_of(record) for record in records]
    data, ends = b"".join(lines), list(accumulate(map(len, lines)))
    for size in sizes:
        contents = parse(data[:size])
        # A record is whole once all but its newline is there.
        whole = bisect(ends, size + 1)
        assert list(contents.records) == list(records[:whole])
        torn = size > (ends[whole - 1] if whole else 0)
        assert [d.line for d in contents.damage] == ([whole + 1] if torn else [])


def check_flips(records: Sequence[AnyRecord], bits: Iterable[int]) -> None:
    """With one bit flipped, a log holds every other record, and nothing that was never written.

    ``bits`` are counted from the first bit of the log.
    """
    lines = [line_of(record) for record in records]
    ends = list(accumulate(map(len, lines)))
    flipped = bytearray(b"".join(lines))
    for bit in bits:
        hit = bisect(ends, bit // 8)
        flipped[bit // 8] ^= 1 << bit % 8
        contents = parse(bytes(flipped))
        flipped[bit // 8] ^= 1 << bit % 8
        # Nothing is misread: only the record whose newline was hit may still be whole.
        others = [*records[:hit], *records[hit + 1 :]]
        if list(contents.records) != others:
            assert list(contents.records) == list(records)
            assert bit // 8 == ends[hit] - 1
        else:
            assert contents.damage
        assert all(d.line in (hit + 1, hit + 2) for d in contents.damage)


def fifty() -> list[AnyRecord]:
    """A log of 50 records of every kind, most of them small."""
    tried = [trial(n, FAILED if n % 3 == 1 else TIMED) for n in range(8)]
    stops = [STOP.model_copy(update={"run": f"r{n}"}) for n in range(40)]
    return [RUN, *tried, *stops, final(0, (0, 1.5), (2, 2.5))]


def size_of(records: Sequence[AnyRecord]) -> int:
    return sum(len(line_of(record)) for record in records)


def test_truncations_and_flips_of_a_sample() -> None:
    records = fifty()
    size = size_of(records)
    rng = random.Random(5)
    check_truncations(records, rng.sample(range(size + 1), 150))
    check_flips(records, rng.sample(range(8 * size), 300))


def test_every_truncation() -> None:
    check_truncations(RECORDS, range(len(LOG) + 1))


def test_every_single_bit_flip_of_a_record() -> None:
    records = [STOP, STOP.model_copy(update={"run": "r2"})]
    check_flips(records, range(8 * len(line_of(STOP))))


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_every_truncation_of_fifty_records() -> None:
    records = fifty()
    check_truncations(records, range(size_of(records) + 1))


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("bit", range(8))
def test_every_single_bit_flip_of_fifty_records(bit: int) -> None:
    records = fifty()
    check_flips(records, range(bit, 8 * size_of(records), 8))


def test_crlf_blank_lines_and_spaces_are_no_damage() -> None:
    text = b"\n\r\n" + LOG.replace(b"\n", b"\r\n") + b"  \n"
    contents = parse(text)
    assert list(contents.records) == RECORDS
    assert contents.damage == ()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"\x00\x00\x00", "not a line of a log"),
        (b"\xff\xfe garbage", "not a line of a log"),
        (b'{"trial": 3}', "not a line of a log"),
        (LINES[1][:200], "a torn line"),
        (LINES[1][:-1].replace(b'"trial":0', b'"trial":8'), "the checksum does not match"),
    ],
)
def test_damage_is_named_and_skipped(line: bytes, reason: str) -> None:
    contents = parse(LINES[0] + line + b"\n" + LINES[2])
    assert list(contents.records) == [RECORDS[0], RECORDS[2]]
    assert contents.damage == (Damage(2, reason),)


def signed(raw: bytes) -> bytes:
    return b'{"crc":"%08x","rec":%s}\n' % (zlib.crc32(raw), raw)


RAW = LINES[3][len(b'{"crc":"01234567","rec":') : -2]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (RAW.replace(b'"version":4', b'"version":5'), "version 5 is of a later autosched"),
        (RAW.replace(b'"version":4', b'"version":"1"'), "version"),
        (RAW.replace(b'"trials":2', b'"trials":2,"trials":2'), "the key 'trials' occurs twice"),
        (RAW.replace(b'"seed":0', b'"seed":0,"seed":1'), "the key 'seed' occurs twice"),
        (RAW.replace(b'"trials":2', b'"trials":2,"more":1'), "more: Extra inputs"),
        (RAW.replace(b'"trials":2,', b""), "trials: Field required"),
        (RAW.replace(b'"trials":2', b'"trials":true'), "trials"),
        (RAW.replace(b'"trials":2', b'"trials":-1'), "trials"),
        (RAW.replace(b'"trials":2', b'"trials":NaN'), "NaN is no number of JSON"),
        (RAW.replace(b'"trials":2', b'"trials":' + b"9" * 5000), "not JSON"),
        (RAW.replace(b'"trials":2', b'"trials":' + b"9" * 30), "trials"),
        (RAW.replace(b'"done"', b"[" * 100_000 + b"]" * 100_000), "not JSON"),
        (RAW.replace(b'"done"', b'"\xff"'), "not JSON"),
        (RAW.replace(b'"kind":"stop"', b'"kind":"halt"'), "kind"),
    ],
)
def test_a_true_checksum_does_not_make_a_record(raw: bytes, reason: str) -> None:
    assert raw != RAW
    contents = parse(signed(raw) + LINES[1])
    assert list(contents.records) == [RECORDS[1]]
    (damage,) = contents.damage
    assert damage.line == 1
    assert reason in damage.reason


def test_two_records_fused_on_one_line_are_both_read() -> None:
    contents = parse(LINES[0][:-1] + LINES[1])
    assert list(contents.records) == RECORDS[:2]
    torn = parse(LINES[0][:57] + LINES[1])
    assert list(torn.records) == [RECORDS[1]]
    assert torn.damage == (Damage(1, "a torn line"),)


@settings(max_examples=200)
@given(st.binary(max_size=300), st.integers(0, 3))
def test_garbage_between_lines_never_hides_a_record(junk: bytes, where: int) -> None:
    lines = [*LINES[:where], junk + b"\n", *LINES[where:]]
    contents = parse(b"".join(lines))
    assert list(contents.records) == RECORDS


def test_writer_appends_and_reader_reads(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with LogWriter(path) as writer:
        for record in RECORDS:
            writer.append(record)
    assert path.read_bytes() == LOG
    assert list(read(path).records) == RECORDS
    assert log.check(path) == ()


def test_next_writer_repairs_every_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    kept = LINES[0] + LINES[1]
    last = len(LINES[2])
    for size in (*range(20), *range(20, last - 3, 23), *range(last - 3, last + 1)):
        path.write_bytes(kept + LINES[2][:size])
        with LogWriter(path) as writer:
            writer.append(RECORDS[3])
        whole = size >= len(LINES[2]) - 1
        assert path.read_bytes() == kept + (LINES[2] if whole else b"") + LINES[3]


def test_a_reader_repairs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(LOG[:-30])
    assert read(path).damage == (Damage(4, "a torn line"),)
    assert path.read_bytes() == LOG[:-30]


def test_a_foreign_tail_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(LINES[0] + b"someone's note")
    with LogWriter(path) as writer:
        writer.append(RECORDS[1])
    assert path.read_bytes() == LINES[0] + b"someone's note\n" + LINES[1]


def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("workload:\n  op: matmul")
    with pytest.raises(StorageError, match="it is not a log of autosched"):
        LogWriter(path)
    assert path.read_text() == "workload:\n  op: matmul"


class Failing(Disk):
    """A disk that fails one kind of call, or takes only part of a write."""

    def __init__(self, call: str, code: int = errno.ENOSPC, part: int | None = None) -> None:
        self._call, self._code, self._part = call, code, part

    def write(self, descriptor: int, data: bytes) -> int:
        if self._part is not None:
            return super().write(descriptor, data[: self._part])
        self._fail("write")
        return super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self._fail("sync")
        super().sync(descriptor)

    def _fail(self, call: str) -> None:
        if call == self._call:
            raise OSError(self._code, os.strerror(self._code))


@pytest.mark.parametrize("call", ["write", "sync"])
def test_disk_full_names_path_and_errno_and_loses_only_that_record(
    tmp_path: Path, call: str
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(LINES[0])
    with LogWriter(path, Failing(call)) as writer, pytest.raises(StorageError) as caught:
        writer.append(RECORDS[1])
    assert str(caught.value) == f"{path}: cannot be written: No space left on device (ENOSPC)"
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == LINES[0]


@pytest.mark.parametrize("part", [0, 1, 40, len(LINES[1]) - 1])
def test_a_short_write_is_no_success(tmp_path: Path, part: int) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(LINES[0])
    with (
        LogWriter(path, Failing("", part=part)) as writer,
        pytest.raises(StorageError, match=f"only {part} of {len(LINES[1])} bytes"),
    ):
        writer.append(RECORDS[1])
    assert path.read_bytes() == LINES[0]


@pytest.mark.parametrize(("left", "said"), [(0, "EFBIG"), (100, "a short write")])
def test_a_full_disk_is_survived_for_real(tmp_path: Path, left: int, said: str) -> None:
    path = tmp_path / "log.jsonl"
    limit = len(LINES[0]) + len(LINES[1]) + left
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, path, str(limit), *PLACES], capture_output=True, text=True
    )
    assert done.returncode == 5, done.stderr
    assert done.stdout == f"2 records, then: {said}\n"
    assert path.read_bytes() == LINES[0] + LINES[1]
    with LogWriter(path) as writer:
        writer.append(RECORDS[2])
    assert path.read_bytes() == b"".join(LINES[:3])


def test_a_read_only_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "frozen"
    folder.mkdir()

    class Frozen(Disk):
        def open(self, path: Path) -> int:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with pytest.raises(StorageError, match="Read-only file system \\(EROFS\\)"):
        LogWriter(folder / "log.jsonl", Frozen())
    assert list(folder.iterdir()) == []
    if os.getuid():
        folder.chmod(0o500)
        with pytest.raises(StorageError, match="EACCES"):
            LogWriter(folder / "log.jsonl")


def test_missing_folder_and_read_only_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="ENOENT"):
        LogWriter(tmp_path / "missing" / "log.jsonl")
    with pytest.raises(StorageError, match=r"cannot be read.*ENOENT"):
        read(tmp_path / "none.jsonl")
    with pytest.raises(StorageError, match="EISDIR"):
        LogWriter(tmp_path)


def test_network_filesystems_are_told_apart() -> None:
    mounts = "/dev/a / ext4 rw 0 0\nhost:/x /net\\040share nfs4 rw 0 0\nt /net tmpfs rw 0 0\n"
    assert filesystem(Path("/net share/logs"), mounts) == "nfs4"
    assert filesystem(Path("/net/logs"), mounts) == "tmpfs"
    assert filesystem(Path("/netting"), mounts) == "ext4"


def test_writers_on_a_network_filesystem_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "filesystem", lambda path: "nfs4")
    with pytest.raises(StorageError, match="it lies on nfs4"):
        LogWriter(tmp_path / "log.jsonl")


PLACES = (str(Path(__file__).parent), str(Path(__file__).parents[2]))
#: Appends until the file may not grow any further, which the kernel says as a disk says it is full.
LIMITED = """
import errno, resource, signal, sys
sys.path[:0] = sys.argv[3:]
import test_log
from measure.disk import StorageError
from measure.log import LogWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
with LogWriter(sys.argv[1]) as writer:
    for count, record in enumerate(test_log.RECORDS):
        try:
            writer.append(record)
        except StorageError as error:
            said = errno.errorcode.get(error.errno, "a short write")
            print(count, "records, then:", said)
            sys.exit(5)
"""
WRITER = """
import sys
sys.path[:0] = sys.argv[3:]
import test_log
from measure.log import LogWriter
with LogWriter(sys.argv[1]) as writer:
    for number in range(100):
        writer.append(test_log.trial(int(sys.argv[2]) * 1000 + number))
"""


def test_two_writers_leave_every_line_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    here = Path(__file__).parent
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, path, str(n), str(here), str(here.parents[1])]
        )
        for n in (1, 2)
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    contents = read(path)
    assert contents.damage == ()
    numbers = [t.trial for t in contents.trials]
    assert sorted(numbers) == [*range(1000, 1100), *range(2000, 2100)]
    assert [n for n in numbers if n < 2000] == sorted(n for n in numbers if n < 2000)


def test_best_is_the_fastest_with_evidence() -> None:
    unproven = Timed(Timing(1.0, 1.0, 1.0, (1.0,)), None, None, 0.0, 0.0)
    records = [
        trial(0, latency(5.0)),
        trial(1, latency(3.0)),
        trial(2, FAILED),
        trial(3, unproven),
        trial(4, latency(4.0), target="a100"),
    ]
    found = log.best(records)
    assert {task: t.trial for task, t in found.items()} == {
        (WORKLOAD.key, "h200"): 1,
        (WORKLOAD.key, "a100"): 4,
    }


def test_predicted_trials_are_let_in_only_by_name() -> None:
    made_up = Timed(Timing(1.0, 1.0, 1.0, (1.0,)), None, None, 0.0, 0.0, predicted=True)
    records = [trial(0, latency(5.0)), trial(1, made_up)]
    task = (WORKLOAD.key, "h200")
    assert log.best(records)[task].trial == 0
    assert log.best(records, predicted=True)[task].trial == 1
    assert log.best([trial(1, made_up)]) == {}


def test_the_final_comparison_overrules_single_times() -> None:
    records = [trial(0, latency(5.0)), trial(1, latency(4.9)), final(0, (0, 5.1), (1, 5.3))]
    task = (WORKLOAD.key, "h200")
    assert log.best(records)[task].trial == 0
    assert log.best([*records, trial(2, latency(5.2))])[task].trial == 0
    assert log.best([*records, trial(3, latency(5.0))])[task].trial == 3


def disturbed(us: float) -> Timed:
    measured = latency(us)
    return replace(measured, conditions=Conditions(1980, 2.0, 2, "process 7 used 40 % of the SMs"))


def test_conditions_and_causes_come_back_as_they_were() -> None:
    lost = Failed(Failure.RUNTIME, "gone", None, 0.5, 0.25, Cause.DEVICE_LOST)
    for measurement in (disturbed(3.0), lost):
        (record,) = parse(line_of(trial(0, measurement))).records
        assert isinstance(record, TrialRecord)
        assert record.measured() == measurement


def test_a_quarantined_time_yields_to_any_other() -> None:
    task = (WORKLOAD.key, "h200")
    records = [trial(0, disturbed(1.0)), trial(1, latency(5.0)), trial(2, disturbed(2.0))]
    assert [r.quarantined for r in records] == [True, False, True]
    assert log.best(records)[task].trial == 1
    assert log.best([records[0], records[2]])[task].trial == 0, "where there is no other"
    assert log.best([*records, final(0, (2, 4.0), (1, 5.0))])[task].trial == 2, "finals are paired"


def at(second: int) -> Provenance:
    return PROVENANCE.model_copy(update={"time": f"2025-01-01T00:00:{second:02}.000+00:00"})


def test_what_is_best_does_not_depend_on_the_order_of_lines() -> None:
    records: list[AnyRecord] = [
        trial(0, latency(5.0), provenance=at(1)),
        trial(1, latency(4.0), provenance=at(2)),
        trial(2, latency(4.0), provenance=at(3)),
        trial(3, disturbed(1.0), provenance=at(4)),
        final(0, (0, 4.5), (1, 4.6)).model_copy(update={"provenance": at(5)}),
        trial(4, latency(4.55), provenance=at(6)),
        # The same program again, and a line that was written twice.
        trial(5, latency(4.5), provenance=at(7), program="p0"),
        trial(5, latency(4.5), provenance=at(7), program="p0"),
    ]
    task = (WORKLOAD.key, "h200")
    rng = random.Random(0)
    for _ in range(50):
        rng.shuffle(records)
        assert log.best(records)[task].trial == 0
    earlier = [r for r in records if isinstance(r, TrialRecord) and r.trial in (1, 2)]
    assert log.best(earlier)[task].trial == log.best(earlier[::-1])[task].trial == 1


def test_a_key_that_occurs_twice_is_damage_in_either_order() -> None:
    for twice in (b'"trials":2,"trials":3', b'"trials":3,"trials":2'):
        (damage,) = parse(signed(RAW.replace(b'"trials":2', twice))).damage
        assert damage.reason == "the key 'trials' occurs twice"


def test_a_log_of_version_1_is_read_for_ever() -> None:
    contents = read(Path(__file__).parent / "data" / "log-v1.jsonl")
    assert contents.damage == ()
    assert [record.kind for record in contents.records] == [
        "run",
        *["trial"] * 9,
        "final",
        "stop",
    ]
    assert {record.version for record in contents.records} == {1}
    timed, failed, *_ = (t.measured() for t in contents.trials)
    assert timed == TIMED
    assert failed == FAILED
    assert [t.measurement.kind for t in contents.trials[2:7]] == list(Failure)  # type: ignore[union-attr]
    assert contents.trials[7].predicted
    assert log.best(contents.records)[WORKLOAD.key, "h200"].trial == 8
    stop = contents.records[-1]
    assert isinstance(stop, StopRecord)
    assert (stop.reason, stop.trials, stop.provenance) == ("done", 2, PROVENANCE)
    again = parse(b"".join(line_of(record) for record in contents.records))
    assert again == contents
