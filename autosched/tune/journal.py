"""Writes what happens in a tuning run to a log, one line per attempt. Decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import autosched
from autosched.codegen.render import RENDERING_VERSION
from autosched.tune.options import Options
from autosched.tune.result import Trial
from measure.comparison import Comparison
from measure.log import LogWriter
from measure.measurement import Failed, Timing
from measure.record import (
    AnyRecord,
    Entrant,
    FinalRecord,
    Provenance,
    ResumeRecord,
    RoundRecord,
    RunRecord,
    StopRecord,
    TimingText,
    TrialRecord,
    WorkloadText,
    evidence_of,
    facts_of,
    status_of,
)
from measure.service import DeviceInfo
from search_space.workload import Workload


class Journal:
    """The lines of one run, appended to ``log`` as they come; nowhere if it is None.

    ``now`` is asked for the time of each line, in UTC. Raises what the log raises.
    """

    def __init__(
        self,
        log: LogWriter | None,
        *,
        run: str,
        workload: Workload,
        device: DeviceInfo,
        seed: int,
        now: Callable[[], datetime],
    ) -> None:
        self._log = log
        self._run = run
        self._workload = WorkloadText(
            key=workload.key, text=workload.canonical, label=workload.label
        )
        self._device = device
        self._seed = seed
        self._now = now
        other = device.rendering_version
        self._rendering_version = RENDERING_VERSION if other is None else other

    def start(self, spec: Mapping[str, Any], options: Options, identity: Mapping[str, Any]) -> None:
        """Write what was asked for, and what proposals will depend on beside outcomes."""
        self._append(
            lambda: RunRecord(
                run=self._run,
                spec=dict(spec),
                options=options.to_data(),
                device=self._device.kind,
                target=self._device.target_name,
                gpu=self._device.gpu_name,
                workload=self._workload,
                identity=dict(identity),
                provenance=self._provenance(),
            )
        )

    def resume(self, options: Options, trials: int) -> None:
        """Write that the run goes on after ``trials`` that it recorded."""
        self._append(
            lambda: ResumeRecord(
                run=self._run,
                options=options.to_data(),
                trials=trials,
                provenance=self._provenance(),
            )
        )

    def round(self, number: int, trials: Sequence[int], abort_above_us: float | None) -> None:
        """Write which trials of a batch are handed over, and the time to give them up above."""
        self._append(
            lambda: RoundRecord(
                run=self._run,
                round=number,
                trials=tuple(trials),
                abort_above_us=abort_above_us,
                provenance=self._provenance(),
            )
        )

    def trial(self, trial: Trial) -> None:
        """Write one attempt."""
        self._append(
            lambda: TrialRecord(
                run=self._run,
                trial=trial.number,
                round=trial.round,
                workload=self._workload,
                target=self._device.target_name,
                gpu=self._device.gpu_name,
                schedule=trial.candidate.schedule.to_data(),
                program=trial.program.fingerprint if trial.program else "",
                rendering_version=self._rendering_version,
                measurement=status_of(trial.measurement),
                facts=facts_of(trial.measurement),
                evidence=evidence_of(trial.measurement),
                provenance=self._provenance(),
            )
        )

    def final(self, entrants: Sequence[Trial], comparison: Comparison) -> None:
        """Write how the best compared."""
        library = comparison.library
        self._append(
            lambda: FinalRecord(
                run=self._run,
                workload=self._workload,
                target=self._device.target_name,
                gpu=self._device.gpu_name,
                entrants=tuple(_entrant(trial, comparison, n) for n, trial in enumerate(entrants)),
                library=TimingText.of(library) if isinstance(library, Timing) else None,
                best=comparison.best,
                ties=comparison.ties,
                rounds=comparison.rounds,
                seeds=comparison.seeds,
                predicted=self._device.predicted,
                trouble=comparison.trouble,
                provenance=self._provenance(),
            )
        )

    def stop(self, reason: str, trials: int) -> None:
        """Write why the run ended."""
        self._append(
            lambda: StopRecord(
                run=self._run, reason=reason, trials=trials, provenance=self._provenance()
            )
        )

    def _append(self, record: Callable[[], AnyRecord]) -> None:
        if self._log is not None:
            self._log.append(record())

    def _provenance(self) -> Provenance:
        return Provenance(
            autosched=autosched.__version__,
            torch=self._device.torch,
            triton=self._device.triton,
            driver=self._device.driver,
            seed=self._seed,
            time=self._now().isoformat(timespec="milliseconds"),
        )


def _entrant(trial: Trial, comparison: Comparison, index: int) -> Entrant:
    outcome, ratio = comparison.entrants[index], comparison.ratios[index]
    return Entrant(
        trial=trial.number,
        program=trial.program.fingerprint if trial.program else "",
        timing=None if isinstance(outcome, Failed) else TimingText.of(outcome),
        failure=outcome.detail if isinstance(outcome, Failed) else None,
        ratio=(ratio.median, ratio.low, ratio.high) if ratio else None,
    )
