"""Packs are made once a tensor, follow every change, and never outlive the memory they copy."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time

import pytest
import torch

from autosched.runtime.packs import Packed, Packs


class Copier:
    """Makes packs that are plain copies, and counts them."""

    def __init__(self, packs: Packs) -> None:
        self.packs = packs
        self.made = 0

    def of(self, tensor: torch.Tensor, layout: str = "rows") -> torch.Tensor:
        return self.packs.get(layout, [tensor], lambda: self._make(tensor))["packed"]

    def _make(self, tensor: torch.Tensor) -> Packed:
        self.made += 1
        return {"packed": tensor.clone()}


@pytest.fixture
def copier() -> Copier:
    return Copier(Packs())


def test_one_pack_serves_every_view_that_lies_alike(copier: Copier) -> None:
    weight = torch.randn(6, 4)
    first = copier.of(weight)
    assert copier.of(weight.detach()) is first
    assert copier.of(weight.t().t()) is first
    assert copier.of(weight[:3]).shape == (3, 4)
    assert copier.of(weight[3:]).equal(weight[3:])
    assert copier.of(weight, "padded rows") is not first
    assert (copier.made, copier.packs.bytes) == (4, 4 * (24 + 12 + 12 + 24))


def test_a_change_in_place_is_followed(copier: Copier) -> None:
    weight = torch.randn(6, 4)
    for change in (
        lambda: weight.add_(1.0),
        lambda: weight.t()[0].zero_(),
        lambda: weight.detach().copy_(torch.ones(6, 4)),
        lambda: weight.set_(torch.full((6, 4), 7.0)),  # type: ignore[call-overload]
    ):
        copier.of(weight)
        change()
        assert copier.of(weight).equal(weight)
    with torch.inference_mode():
        weight.mul_(2.0)
        assert copier.of(weight).equal(weight)
    made = copier.made
    copier.of(weight)
    assert copier.made == made
    assert len(copier.packs) == 1  # what it was before is forgotten


def test_what_torch_does_not_see_wants_a_word(copier: Copier) -> None:
    weight, other = torch.zeros(4), torch.zeros(4)
    stale, kept = copier.of(weight), copier.of(other)
    weight.data.fill_(1.0)
    assert copier.of(weight) is stale
    copier.packs.invalidate(weight[1:])
    assert copier.of(weight).equal(weight)
    assert copier.of(other) is kept
    copier.packs.invalidate()
    assert (len(copier.packs), copier.packs.bytes) == (0, 0)


def test_memory_that_is_freed_takes_its_pack_along(copier: Copier) -> None:
    weight = torch.randn(64, 64)
    view = weight[1:]
    copier.of(view)
    del weight
    assert copier.packs.bytes == 63 * 64 * 4
    del view
    gc.collect()
    assert copier.packs.bytes == 0


def test_an_address_that_is_used_again_is_another_tensor(copier: Copier) -> None:
    """Memory of one address, lent to one tensor after the other, all at version 0."""
    memory = bytearray(64)
    for value in range(20):
        memory[:] = bytes([value]) * 64
        weight = torch.frombuffer(memory, dtype=torch.int8)
        assert weight._version == 0
        assert copier.of(weight).tolist() == [value] * 64
        del weight
    assert copier.made == 20


def test_a_new_pack_is_not_forgotten_when_old_memory_goes(copier: Copier) -> None:
    weight = torch.zeros(8)
    before = torch.zeros(8)
    copier.packs.get("rows", [weight, before], lambda: {"packed": weight.clone()})
    copier.of(weight)
    del before
    gc.collect()
    assert len(copier.packs) == 1
    assert copier.of(weight).equal(weight)
    assert copier.made == 1


def test_inference_tensors_are_packed_on_every_call_unless_frozen(copier: Copier) -> None:
    with torch.inference_mode():
        weight = torch.zeros(4)
    copier.of(weight)
    with torch.inference_mode():
        weight.fill_(1.0)
    assert copier.of(weight).equal(weight)
    assert (copier.made, len(copier.packs)) == (2, 0)
    copier.packs.freeze(weight)
    frozen = copier.of(weight)
    assert copier.of(weight) is frozen
    with torch.inference_mode():
        weight.fill_(2.0)
    copier.packs.invalidate(weight)
    assert copier.of(weight).equal(weight)
    del weight, frozen
    gc.collect()
    assert (len(copier.packs), len(copier.packs._frozen)) == (0, 0)


def test_freezing_hides_no_change_that_torch_counts(copier: Copier) -> None:
    weight = torch.zeros(4)
    copier.of(weight)
    weight.fill_(1.0)
    copier.packs.freeze(weight)
    assert copier.of(weight).equal(weight)
    weight.fill_(2.0)
    assert copier.of(weight).equal(weight)


def test_threads_share_one_pack(copier: Copier) -> None:
    weight, found = torch.randn(8), list[torch.Tensor]()
    start = threading.Barrier(4)

    def make() -> Packed:
        copier.made += 1
        time.sleep(0.02)
        return {"packed": weight.clone()}

    def call() -> None:
        start.wait()
        found.append(copier.packs.get("rows", [weight], make)["packed"])

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert copier.made == 1
    assert all(pack is found[0] for pack in found)


SERVE = """
import collections, json, sys, threading
import torch
sys.path.insert(0, "tests/measure")
from cpu_worker import CpuSession
from autosched.codegen.render import render
from autosched.runtime.catalog import catalogue
from autosched.runtime.device import Setting
from autosched.runtime.engine import KernelEngine
from autosched.runtime.served import Served
from autosched.runtime.tuned import Tuned
from autosched.te.operators import matmul
from measure.job import Open
from measure import launch
from measure.launch import Launcher
from search_space import target
from search_space.rules import sketches
from search_space.sketch import fill

H200, CPU = target.load("h200"), torch.device("cpu")
started = collections.Counter()
start_on = launch._Interpreted.start_on
def counted(self, tensors):
    begin = start_on(self, tensors)
    def run(stream):
        started[self._kernel.prepares] += 1
        begin(stream)
    return run
launch._Interpreted.start_on = counted

def program(work):
    name = "contraction.descriptor.direct.packed"
    sketch = next(s for s in sketches(work, H200) if s.name == name)
    choices = {c.name: min(c.domain) for c in sketch.choices} | {"tile_k": 32}
    return render(work, fill(sketch, choices), H200)

works = [matmul(m, 20, 32, dtype="float16", constant=("b",)) for m in (16, 17)]
session = CpuSession(Open(works[0], None, "cpu", (0, 1)))
timed = session.measure(program(works[0]), None)
evidence, cases = timed.evidence.constant, len(session.cases)
measured = started[True] - cases, started[False] > 2 * cases
started.clear()

here = Setting("NVIDIA H200", H200, "3.6.0", "580.65")
tuned = Tuned(catalogue((), (), here.place), here, on_miss="serve")
for work in works:
    served = Served(work, "default", "", program=program(work))
    engine = KernelEngine(Launcher(served.program, CPU), tuned._packs)
    tuned._ready[work.key, CPU] = served, engine
b = torch.randn(32, 20).half()
def right(m=16):
    a = torch.randn(m, 32).half()
    got = tuned.matmul(a, b, constant=["b"])
    return torch.allclose(got.float(), a.float() @ b.float(), rtol=2e-3, atol=2e-2)
ok = [right(), right(), right(17)]
once = started[True]
b.mul_(-1)
ok.append(right())
b.data.mul_(-1)
tuned.invalidate(b)
ok.append(right())
held, said = tuned.packed_bytes, tuned.summary()
del b
print(json.dumps({
    "evidence": evidence, "measured": measured, "right": all(ok), "once": once,
    "packs": started[True], "held": held, "said": "bytes hold copies" in said,
    "left": tuned.packed_bytes,
}))
"""


def test_a_constant_operand_is_packed_once_when_measured_and_when_served() -> None:
    """Measured: once per data set, once before the timed part, once for exchanged data. Served:
    two workloads share one pack, which follows a change in place and a word."""
    done = subprocess.run(
        [sys.executable, "-c", SERVE],
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "evidence": ["B"],
        "measured": [2, True],
        "right": True,
        "once": 1,
        "packs": 3,
        "held": 32 * 24 * 2,
        "said": True,
        "left": 0,
    }
