"""One line of a benchmark: what was compared on one workload and how it came out. Data only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Interval:
    """A median, or a ratio of medians, with the ends of its 95 % confidence interval."""

    value: float
    low: float
    high: float

    def inverse(self) -> Interval:
        """Return the interval of one over the value, which is positive."""
        return Interval(1 / self.value, 1 / self.high, 1 / self.low)

    def scaled(self, factor: float) -> Interval:
        """Return the interval times a positive factor."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Row:
    """Times are GPU time alone, in microseconds, of interleaved runs with a cold L2.

    ``times_us`` holds "ours" and every entrant that ran; ``ratios`` holds, by entrant, its time
    over ours (above 1: ours is faster), paired. ``host_us`` is what one call costs the host.
    ``source`` says what ours was: "tuned", "default" or "library". ``rel_err`` is the largest
    ``|out - ref|`` over the largest ``|ref|``. ``notes`` are sentences about what is missing.
    """

    workload: str
    label: str
    key: str
    times_us: Mapping[str, Interval]
    ratios: Mapping[str, Interval]
    roofline_us: float
    operations: int
    source: str = ""
    sketch: str | None = None
    fingerprint: str | None = None
    trials: int | None = None
    tune_s: float | None = None
    candidates_per_s: float | None = None
    rel_err: float | None = None
    predicted: bool = False
    host_us: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    #: Inputs that the workload declares constant: preparing them is in no time of ours.
    constant: tuple[str, ...] = ()
    #: "aligned", "unaligned" or "ieee", None of what is no product: see ``alignment.kind``.
    kind: str | None = None
    #: The best time of the first 8 trials over the best of all.
    first8_ratio: float | None = None
    #: Fresh seeds on which ours was held to the reference beside those that it was timed on.
    verified_seeds: int | None = None
    #: Seconds that parts of the row took, by name.
    bench_s: Mapping[str, float] = field(default_factory=dict)
    #: The largest error of ours on any data, in tolerances.
    max_error: float | None = None
    #: What a library called, by its name.
    forms: Mapping[str, str] = field(default_factory=dict)
    #: Seconds before an entrant's first run: compiling, for the compiler its own tuning.
    setup_s: Mapping[str, float] = field(default_factory=dict)
    #: Seconds and trials that a second tuning at quick effort took, where it was asked for; what
    #: it found is the entrant "quick".
    quick_s: float | None = None
    quick_trials: int | None = None
    #: The groups that the suite counts it to.
    tags: tuple[str, ...] = ()

    @property
    def quick_share(self) -> Interval | None:
        """The speed of what quick effort found over that of ours: 1 where they are alike."""
        ratio = self.ratios.get("quick")
        return ratio.inverse() if ratio else None

    def to_data(self, entrants: Iterable[str]) -> dict[str, Any]:
        """Return the plain-data form: a column per entrant, None where it did not run."""
        ours = self.times_us.get("ours")
        data: dict[str, Any] = {"workload": self.workload, "label": self.label, "key": self.key}
        for name in ("ours", *entrants):
            data |= _columns(f"{name}_us", self.times_us.get(name))
        for name in entrants:
            data |= _columns(f"ratio_{name}", self.ratios.get(name))
        for name, host in self.host_us.items():
            data[f"{name}_host_us"] = _rounded(host)
        for name in entrants:
            data[f"{name}_form"] = self.forms.get(name)
            data[f"{name}_setup_s"] = _rounded(self.setup_s.get(name))
        if self.quick_s is not None:
            data |= _columns("quick_us", self.times_us.get("quick"))
            data |= _columns("quick_share", self.quick_share)
            data |= {"quick_s": _rounded(self.quick_s), "quick_trials": self.quick_trials}
        return data | {
            "trials": self.trials,
            "tune_s": _rounded(self.tune_s),
            "candidates_per_s": _rounded(self.candidates_per_s),
            "source": self.source,
            "sketch": self.sketch,
            "fingerprint": self.fingerprint,
            "roofline_us": _rounded(self.roofline_us),
            "roofline_share": _rounded(self.roofline_us / ours.value) if ours else None,
            "tflops": _rounded(self.operations / ours.value * 1e-6) if ours else None,
            "rel_err": self.rel_err,
            "predicted": self.predicted,
            "constant": list(self.constant),
            "kind": self.kind,
            "tags": list(self.tags),
            "first8_ratio": _rounded(self.first8_ratio),
            "verified_seeds": self.verified_seeds,
            "max_error": _rounded(self.max_error),
            "bench_s": {name: _rounded(seconds) for name, seconds in self.bench_s.items()},
            "notes": list(self.notes),
        }


def geometric_mean(values: Iterable[float]) -> float | None:
    """Return the geometric mean of positive values; None of none."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _columns(name: str, interval: Interval | None) -> dict[str, float | None]:
    if interval is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {
        name: _rounded(interval.value),
        f"{name}_low": _rounded(interval.low),
        f"{name}_high": _rounded(interval.high),
    }


def _rounded(value: float | None) -> float | None:
    """Keep five significant digits: more than any interval here justifies."""
    return None if value is None else float(f"{value:.5g}")
