"""Programs and the library timed in turns on one device, on fresh data for each of several seeds.

Knows nothing of processes; notes say whose turn it is, so that a crash has a name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

import torch

from measure import verify
from measure.gpu_timer import HostTooSlow, fastest
from measure.job import Compare, Rounds
from measure.launch import Launcher
from measure.library import Form, library_forms
from measure.measurement import Failed, Failure
from measure.output import poison
from measure.session import Session
from measure.trouble import failure_of, healthy

#: The library rounds after every operation of an epilogue; its outputs are held to this many
#: tolerances.
LIBRARY_TOLERANCES = 16.0
_ATTEMPTS = 10
#: Computes into the session's output, or returns a tensor that lies like it.
Piece = Callable[[], torch.Tensor | None]


class Contest:
    """One comparison: entrants by index, the library last."""

    def __init__(self, session: Session, request: Compare, note: Callable[[str], None]) -> None:
        self._session = session
        self._request = request
        self._note = note
        #: The index of the entrant that is on, or "" where several are queued at once.
        self.turn = ""
        self._failures: dict[int, Failed] = {}
        self._trouble = ""
        self._launchers: dict[int, Launcher] = {}
        #: The ways in which the library may take part; on the first data the fastest is kept.
        self._forms = library_forms(session.workload) if request.library else ()
        count = len(request.programs) + request.library
        self._times: list[list[float]] = [[] for _ in range(count)]

    def run(self) -> Rounds:
        """Return the times of every entrant, round by round, and why entrants failed."""
        for index in range(len(self._request.programs)):
            self._guarded(index, partial(self._load, index))
        library = len(self._request.programs)
        if self._request.library and not self._forms:
            detail = "the library has no single call for this computation"
            self._failures[library] = Failed(Failure.CONSTRAINTS, detail)
        seeds = self._request.seeds
        for turn, seed in enumerate(seeds):
            share = self._request.rounds * (turn + 1) // len(seeds)
            self._on_fresh_data(seed, share - self._request.rounds * turn // len(seeds))
        rows = tuple(
            () if index in self._failures else tuple(row) for index, row in enumerate(self._times)
        )
        return Rounds(rows, tuple(sorted(self._failures.items())), self._trouble)

    def _load(self, index: int) -> None:
        self._launchers[index] = self._session.load(self._request.programs[index])

    def _on_fresh_data(self, seed: int, rounds: int) -> None:
        session = self._session
        case = verify.random_case(session.workload, seed, session.device)
        session.slots.load(case.inputs)
        pieces: dict[int, Piece] = {}
        for index in range(len(self._times)):
            if index not in self._failures:
                self._guarded(index, partial(self._admit, index, case, pieces))
        self._say("")
        kept = [len(row) for row in self._times]

        def hold() -> None:
            for row, count in zip(self._times, kept, strict=True):
                del row[count:]
            self._rounds(rounds, random.Random(seed), pieces)

        _, conditions = session.guard.watch(hold)
        self._trouble = self._trouble or conditions.trouble
        for index in pieces:
            self._guarded(index, partial(self._judge, index, case, pieces[index]))

    def _admit(self, index: int, case: verify.Case, pieces: dict[int, Piece]) -> None:
        """Bind an entrant to the data, and let it in if its result is right.

        What is let in runs on what was prepared when it was judged: preparing is not timed.
        """
        if index in self._launchers:
            slots, output = self._session.slots, self._session.output
            call = self._launchers[index].prepare(slots.tensors, output.tensor)
            poison(call.workspaces)
            self._judge(index, case, call.run)
            pieces[index] = call.repeat
            return
        self._forms = self._settled(index, case)
        pieces[index] = self._library_piece(self._forms[0])
        self._judge(index, case, pieces[index])

    def _settled(self, index: int, case: verify.Case) -> tuple[Form, ...]:
        """Return the fastest form of the library that is right; raises what the first one did
        where none is."""
        if len(self._forms) == 1:
            return self._forms
        right: list[Form] = []
        errors: list[Exception] = []
        for form in self._forms:
            try:
                self._judge(index, case, self._library_piece(form))
            except Exception as error:
                if not healthy(self._session.device):
                    raise
                errors.append(error)
            else:
                right.append(form)
        if not right:
            raise errors[0]
        best = fastest(self._session.timer, [self._library_piece(form) for form in right])
        return (right[best],)

    def _library_piece(self, form: Form) -> Piece:
        return partial(form.call, self._session.slots.tensors, self._session.output.tensor)

    def _judge(self, index: int, case: verify.Case, piece: Piece) -> None:
        session = self._session
        # Whoever changed the inputs did so to itself alone.
        session.slots.load(case.inputs)
        session.output.poison()
        if (made := piece()) is not None:
            session.output.tensor.copy_(made)
        judged = session.judged(case)
        if index not in self._launchers:
            judged[0] /= LIBRARY_TOLERANCES
        session.conclude([case], [judged])

    def _rounds(self, rounds: int, order: random.Random, pieces: dict[int, Piece]) -> None:
        for _ in range(rounds):
            turns = sorted(index for index in pieces if index not in self._failures)
            order.shuffle(turns)
            self._round(turns, pieces)

    def _round(self, turns: Sequence[int], pieces: dict[int, Piece]) -> None:
        """Time every entrant once; a round in which the host was late is held again."""
        for _ in range(_ATTEMPTS):
            times_us = self._times_of(turns, pieces)
            good = [value for value in times_us if value is not None]
            if len(good) == len(turns):
                for index, value in zip(turns, good, strict=True):
                    self._times[index].append(value)
                return
        raise HostTooSlow("no round of a comparison was free of waiting for the host")

    def _times_of(self, turns: Sequence[int], pieces: dict[int, Piece]) -> list[float | None]:
        timer = self._session.timer
        if not self._request.careful:
            return timer.batch_us([pieces[index] for index in turns])
        times_us: list[float | None] = []
        for index in turns:
            self._say(str(index))
            times_us += timer.batch_us([pieces[index]])
        return times_us

    def _guarded(self, index: int, action: Callable[[], None]) -> None:
        """Do something that only this entrant can fail at; the note names it, should we die."""
        self._say(str(index))
        try:
            action()
        except Exception as error:
            if not healthy(self._session.device):
                raise
            self._failures[index] = failure_of(error)

    def _say(self, turn: str) -> None:
        self.turn = turn
        self._note(turn)
