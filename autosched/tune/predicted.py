"""Times for a device that is only modelled: the analytic prediction with noise of its own.

A time depends on the seed and the program alone, so a run on the modelled device repeats.
"""

from __future__ import annotations

import math
from random import Random

import numpy as np

from autosched.tune.candidate import Candidate
from cost_model.analytic_model import predict_us
from search_space.program import Program
from search_space.target import Target

#: Standard deviation of the logarithm of a predicted time about the analytic one.
NOISE = 0.05


class PredictedTimes:
    """Times of programs in microseconds, for those whose candidate was made known."""

    def __init__(self, target: Target, seed: int) -> None:
        self._target = target
        self._seed = seed
        self._analytic_us: dict[str, float] = {}

    def learn(self, candidate: Candidate, program: Program) -> None:
        """Remember which candidate ``program`` was rendered from."""
        row = [[candidate.choices[name] for name in candidate.sketch.names]]
        times_us = predict_us(candidate.sketch, np.array(row, np.int64), self._target)
        self._analytic_us[program.fingerprint] = float(times_us[0])

    def __call__(self, program: Program) -> float:
        """Return the time of ``program``; KeyError if it was never made known."""
        noise = Random(f"{self._seed}:{program.fingerprint}").gauss(0.0, NOISE)
        return self._analytic_us[program.fingerprint] * math.exp(noise)
