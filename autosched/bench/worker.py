"""The child process that times programs and libraries in turns. Knows no schedule and no log.

A request {"identify": device} is answered with the GPU's {"uuid": ...}, "" where it has none. Any
other is a mapping: workload, names, programs, libraries, rounds, seeds, verify (further
seeds, untimed), device, careful. The reply is one too, by entrant's name: times_us (a tuple, one
per round), rel_err, max_error (in tolerances), host_us, setup_s, verified_seeds, forms (what a
library calls), refused (its other forms that failed, and why) and failures; or, where the device
did not survive, ``broken``: whose turn it was, and ``detail``.
Before anything that can kill the process a note says whose turn it is; while several entrants are
queued at once nobody's, unless the comparison is ``careful`` and waits after each.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch

from autosched.bench.inductor import Function, compiled, plain_forms, reset
from measure import verify
from measure.build_worker import captured, explain
from measure.contest import LIBRARY_TOLERANCES
from measure.gpu_timer import BATCH, GpuTimer, HostTooSlow, fastest
from measure.launch import Launcher
from measure.library import library_forms
from measure.output import GuardedOutput
from measure.session import uuid_of
from measure.trouble import failure_of, healthy
from search_space.workload import Workload

#: Calls that are timed on the host, queued without waiting for the device.
HOST_CALLS = 50
#: Runs of every entrant before any is timed.
WARM_UPS = 3
#: How often a round may be held again because the host was late.
RETRIES = 10
#: Seconds after which no further form of the compiler's is begun, where one is right.
COMPILE_S = 120.0

Note = Callable[[str], None]
#: Computes into the output it was bound to.
Piece = Callable[[], Any]
#: Binds an entrant to inputs and an output; returns the piece and where its result lies.
Bind = Callable[[Sequence[torch.Tensor], torch.Tensor], Piece]


@dataclass(frozen=True)
class Form:
    """One of the ways in which a library computes a workload, named by what it calls.

    A ``fallback`` is for where none before it is right.
    """

    name: str
    bind: Bind
    fallback: bool = False


class Unavailable(Exception):
    """An entrant that cannot take part; the message says why."""


def handle(request: Mapping[str, Any], note: Note) -> dict[str, Any]:
    """Answer one request; see the module for requests and replies. Leaves no data on the device."""
    if "identify" in request:
        return {"uuid": uuid_of(torch.device(request["identify"]))}
    reply = _held(request, note)
    gc.collect()
    if "broken" not in reply:
        torch.cuda.empty_cache()
    return reply


def _held(request: Mapping[str, Any], note: Note) -> dict[str, Any]:
    match = Match(request, note)
    try:
        return match.play()
    except HostTooSlow as error:
        return match.nothing(str(error))
    except Exception as error:
        if healthy(match.device):
            raise
        return {"broken": match.turn, "detail": explain(error, captured())}


class Match:
    """One comparison in progress."""

    def __init__(self, request: Mapping[str, Any], note: Note) -> None:
        self._request = request
        self._note = note
        #: Whose turn it is; "" while several entrants are queued at once.
        self.turn = ""
        self.device = torch.device(request["device"])
        torch.cuda.set_device(self.device)
        torch.set_float32_matmul_precision("highest")
        self._workload = request["workload"]
        self._output = GuardedOutput(self._workload.output, self.device)
        properties = torch.cuda.get_device_properties(self.device)
        self._timer = GpuTimer(int(getattr(properties, "L2_cache_size", 0)))
        self._bind: dict[str, Bind] = {}
        #: What a library may be bound by; settled on the first data.
        self._forms: dict[str, list[Form]] = {}
        self._times_us: dict[str, list[float]] = {}
        self._found: dict[str, dict[str, Any]] = {
            "rel_err": {},
            "max_error": {},
            "host_us": {},
            "setup_s": {},
            "failures": {},
            "verified_seeds": {},
            "forms": {},
            "refused": {},
        }

    def play(self) -> dict[str, Any]:
        """Set up every entrant, then time all of them in turns on fresh data for each seed."""
        programs = dict(zip(self._request["names"], self._request["programs"], strict=True))
        for name in (*programs, *self._request["libraries"]):
            self._set_up(name, programs.get(name))
        seeds = self._request["seeds"]
        for turn, seed in enumerate(seeds):
            rounds = self._request["rounds"]
            self._on_fresh_data(
                seed, rounds * (turn + 1) // len(seeds) - rounds * turn // len(seeds)
            )
        for seed in self._request["verify"]:
            self._verify(list(programs), seed)
        return self._found | {
            "times_us": {n: t for n, t in self._times_us.items() if self._takes_part(n)}
        }

    def _set_up(self, name: str, program: Any) -> None:
        begun = time.monotonic()

        def load() -> None:
            if program is not None:
                self._bind[name] = partial(_prepared, Launcher(program, self.device))
            else:
                self._forms[name] = self._library(name)
            self._times_us[name] = []

        self._guarded(name, load)
        self._found["setup_s"][name] = time.monotonic() - begun

    def _library(self, name: str) -> list[Form]:
        workload = self._workload
        if name == "inductor":
            reset()
            return [
                Form(form.name, _compiling(workload, form.function), form.fallback)
                for form in plain_forms(workload, self.device)
            ]
        forms = library_forms(workload)
        if not forms:
            raise Unavailable("torch has no single call for this computation")
        return [Form(form.name, partial(partial, form.call)) for form in forms]

    def _on_fresh_data(self, seed: int, rounds: int) -> None:
        case = verify.random_case(self._workload, seed, self.device)
        pieces: dict[str, Piece] = {}
        for name in self._times_us:
            self._guarded(name, partial(self._admit, name, case, pieces))
        for name, piece in pieces.items():
            if name not in self._found["host_us"]:
                self._guarded(name, partial(self._time_host, name, piece))
        order = random.Random(seed)
        for _ in range(rounds):
            turns = sorted(name for name in pieces if self._takes_part(name))
            order.shuffle(turns)
            self._round(turns, pieces)
        for name, piece in pieces.items():
            self._guarded(name, partial(self._judge, name, case, piece))

    def _verify(self, names: Sequence[str], seed: int) -> None:
        """Hold programs to the reference on one more seed, untimed."""
        names = [name for name in names if self._takes_part(name)]
        if not names:
            return
        case = verify.random_case(self._workload, seed, self.device)
        for name in names:
            self._guarded(name, partial(self._verify_one, name, case))

    def _verify_one(self, name: str, case: verify.Case) -> None:
        self._judge(name, case, self._bind[name](case.inputs, self._output.tensor))
        held = self._found["verified_seeds"]
        held[name] = held.get(name, 0) + 1

    def _admit(self, name: str, case: verify.Case, pieces: dict[str, Piece]) -> None:
        begun = time.monotonic()
        if name not in self._bind:
            self._bind[name] = self._settled(name, case)
        piece = self._warm(self._bind[name], case)
        if name not in self._found["rel_err"]:  # what compiles does so at its first call
            self._found["setup_s"][name] += time.monotonic() - begun
        self._judge(name, case, piece)
        pieces[name] = piece

    def _warm(self, bind: Bind, case: verify.Case) -> Piece:
        piece = bind(case.inputs, self._output.tensor)
        for _ in range(WARM_UPS):
            piece()
        torch.cuda.synchronize(self.device)
        return piece

    def _settled(self, name: str, case: verify.Case) -> Bind:
        """Return the fastest form of a library that is right; raises Unavailable where none is.

        Of the compiler only as many are tried as it makes in COMPILE_S.
        """
        begun = time.monotonic()
        right: list[Form] = []
        pieces: list[Piece] = []
        refused = self._found["refused"].setdefault(name, [])
        for form in self._forms[name]:
            if right and form.fallback:
                continue
            if right and name == "inductor" and time.monotonic() - begun > COMPILE_S:
                refused.append(f"{form.name}: not compiled in {COMPILE_S:g} s")
                continue
            self._note(name)  # compiling takes minutes: each form has a deadline of its own
            try:
                piece = self._warm(form.bind, case)
                self._error(name, case, piece)
            except Unavailable as error:
                refused.append(f"{form.name}: {error}")
            except Exception as error:
                if not healthy(self.device):
                    raise
                refused.append(f"{form.name}: {failure_of(error).detail}")
            else:
                right.append(form)
                pieces.append(piece)
        if not right:
            raise Unavailable("; ".join(refused))
        form = right[fastest(self._timer, pieces)]
        self._found["forms"][name] = form.name
        return form.bind

    def _judge(self, name: str, case: verify.Case, piece: Piece) -> None:
        """Run and hold the result to the reference; keep how far off; raises Unavailable."""
        for kind, value in zip(
            ("max_error", "rel_err"), self._error(name, case, piece), strict=True
        ):
            held = self._found[kind]
            held[name] = max(held.get(name, 0.0), value)

    def _error(self, name: str, case: verify.Case, piece: Piece) -> tuple[float, float]:
        """Run into a poisoned output and return its errors: in tolerances, and relative.

        Raises Unavailable where it is wrong.
        """
        self._output.poison()
        result = piece()
        output = result if isinstance(result, torch.Tensor) else self._output.tensor
        if bool(verify.inputs_changed(case, case.inputs)):
            raise Unavailable(f"changed its inputs on {case.name}")
        error = float(verify.worst_error(case, output))
        allowed = LIBRARY_TOLERANCES if name in self._request["libraries"] else 1.0
        if not error <= allowed:
            raise Unavailable(f"wrong on {case.name}: {error:.3g} times the tolerance")
        if bool(self._output.overrun()):
            raise Unavailable(f"wrote outside its output on {case.name}")
        far = (output.to(case.expected.dtype) - case.expected).abs().max()
        return error, float(far / case.expected.abs().max().clamp_min(1e-30))

    def _time_host(self, name: str, piece: Piece) -> None:
        torch.cuda.synchronize(self.device)
        begun = time.perf_counter()
        for _ in range(HOST_CALLS):
            piece()
        self._found["host_us"][name] = (time.perf_counter() - begun) * 1e6 / HOST_CALLS
        torch.cuda.synchronize(self.device)

    def _round(self, turns: Sequence[str], pieces: Mapping[str, Piece]) -> None:
        """Time every entrant once, all or none: ratios are paired by round."""
        for _ in range(RETRIES):
            times = self._times_of(turns, pieces)
            if None not in times:
                for name, time_us in zip(turns, times, strict=True):
                    self._times_us[name].append(float(time_us or 0.0))
                return
        raise HostTooSlow("no round of a comparison was free of waiting for the host")

    def _times_of(self, turns: Sequence[str], pieces: Mapping[str, Piece]) -> list[float | None]:
        """Queue as many entrants at once as may be, or one at a time where care is wanted."""
        times: list[float | None] = []
        size = 1 if self._request["careful"] else BATCH
        for start in range(0, len(turns), size):
            names = turns[start : start + size]
            self._say(names[0] if len(names) == 1 else "")
            times += self._timer.batch_us([pieces[name] for name in names])
        return times

    def nothing(self, reason: str) -> dict[str, Any]:
        """Return the reply of a comparison without times."""
        failures = dict.fromkeys(self._times_us, reason) | self._found["failures"]
        return self._found | {"times_us": {}, "failures": failures}

    def _say(self, turn: str) -> None:
        if turn != self.turn:
            self.turn = turn
            self._note(turn)

    def _takes_part(self, name: str) -> bool:
        return name not in self._found["failures"]

    def _guarded(self, name: str, action: Callable[[], None]) -> None:
        """Do what only this entrant can fail at; an error takes it out of the comparison."""
        if not self._takes_part(name):
            return
        self._say(name)
        try:
            action()
            torch.cuda.synchronize(self.device)
        except Unavailable as error:
            self._found["failures"][name] = str(error)
        except Exception as error:
            if not healthy(self.device):
                raise
            self._found["failures"][name] = failure_of(error).detail


def _compiling(workload: Workload, function: Function) -> Bind:
    """Return what binds a function that torch compiles, once, when it is first bound."""
    once = cache(lambda: compiled(workload, function))
    return lambda inputs, _: partial(once(), *inputs)


def _prepared(launcher: Launcher, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> Piece:
    """Bind a program, make its preparations of these inputs, and return all else of it."""
    call = launcher.prepare(inputs, output)
    call.prepare()
    return call.repeat
