"""Serve tensor computations by what a log holds. Never tunes; falls back and says why.

Order of serving: the record of exactly this workload, one of a neighbour that differs in one
extent, a default that the analytic model likes, torch's equivalent, a typed error.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from autosched.runtime import matmul as product
from autosched.runtime.background import Background, Tuner
from autosched.runtime.catalog import Catalog
from autosched.runtime.choice import Prefer, choices
from autosched.runtime.device import Setting, gpu_name
from autosched.runtime.engine import Engine, engine_of
from autosched.runtime.errors import (
    CopyWarning,
    Miss,
    MissWarning,
    NothingServes,
    WrongDevice,
    WrongShape,
)
from autosched.runtime.explain import Explanation, explanation
from autosched.runtime.layout import Relatives
from autosched.runtime.packs import Packs
from autosched.runtime.plan import MOST_PLANS, Plan, Prepared, holds, kind
from autosched.runtime.served import Served
from autosched.runtime.summary import count, summary
from autosched.runtime.tensor import (
    aligned_bytes,
    bind_input,
    check_device,
    check_gradient,
    check_output,
)
from autosched.runtime.warm import Warmed, build_ahead, stated
from measure.compiler import interpreting
from measure.launch import indexed
from search_space.workload import Tensor, Workload

#: What to do where nothing tuned serves a workload: nothing, warn once, raise Miss, or hand it to a
#: tuner in the background.
OnMiss = Literal["serve", "warn", "error", "tune"]
_LOG = logging.getLogger("autosched.runtime")
_Key = tuple[str, torch.device]


@dataclass(frozen=True, slots=True)
class _Ran:
    """What came of one call, and what of it holds for others of its kind: the engine, and the
    workload that its tensors were found to be of, None where the next call must look again."""

    output: torch.Tensor
    engine: Engine
    found: Workload | None


class Tuned:
    """Kernels of one log, served on one GPU model. Safe to call from many threads.

    The first call of a workload compiles, under a lock of its own; later calls only check and
    start. A first call inside a CUDA graph capture is served by torch.
    """

    def __init__(
        self,
        catalog: Catalog,
        here: Setting,
        *,
        on_miss: OnMiss = "warn",
        prefer: Prefer = "best-of",
        buckets: bool = True,
        tuner: Tuner | None = None,
        again: Callable[[], Catalog] | None = None,
        source: str = "",
    ) -> None:
        if on_miss not in get_args(OnMiss):
            raise ValueError(f"on_miss={on_miss!r} is not known; known: serve, warn, error, tune")
        if (on_miss == "tune") != (tuner is not None):
            raise ValueError("on_miss='tune' and a tuner go together: one was given alone")
        if prefer not in get_args(Prefer):
            raise ValueError(f"prefer={prefer!r} is not known; known: best-of, tuned")
        self._prefer = prefer
        self._buckets = buckets
        self._again = again
        self._background = Background(tuner, self._reload) if tuner else None
        self._catalog = catalog
        self._here = here
        self._on_miss = on_miss
        self._source = source
        self._ready: dict[_Key, tuple[Served, Engine]] = {}
        #: By the kinds of a call's tensors and its options.
        self._plans: dict[tuple[object, ...], Plan] = {}
        #: By the key of a workload that was computed, on the device of the last long call.
        self._calls: dict[str, Prepared] = {}
        self._lock = threading.Lock()
        self._locks: dict[_Key, threading.Lock] = {}
        self._looked_up: dict[str, Served] = {}
        self._warned: set[tuple[str, str]] = set()
        self._packs = Packs()
        self._relatives = Relatives(catalog.best)

    def matmul(
        self,
        a: torch.Tensor,
        b: torch.Tensor,
        *,
        trans_a: bool = False,
        trans_b: bool = False,
        bias: torch.Tensor | None = None,
        residual: torch.Tensor | None = None,
        activation: str | None = None,
        out: torch.Tensor | None = None,
        out_dtype: torch.dtype | str | None = None,
        precision: str | None = None,
        constant: Sequence[str] = (),
    ) -> torch.Tensor:
        """Return ``activation(a @ b + bias + residual)``, [m, n] or [batch, m, n].

        ``a`` is [m, k], stored [k, m] if ``trans_a``; ``b`` is [k, n], stored [n, k] if
        ``trans_b``; with a batch in front, both or neither. A transposed view of contiguous
        memory is taken as the other layout, at no cost. Any other strides, and addresses that are
        no multiple of 16 bytes, are served by a record of just that layout if the log has one; else
        the tensor is copied before each run, with one CopyWarning that states the bytes. Inputs
        may overlap each other. ``bias`` [n] and ``residual`` [m, n] have the dtype of the result.
        ``activation`` is relu, gelu, gelu_tanh or silu. ``out`` must be contiguous and aligned, or
        lie as a record says, and must be apart from all inputs. ``precision`` of float32 products
        is "ieee" (default) or "tf32". ``constant`` names arguments that stay the same from call to
        call, such as ``("b",)`` for weights:
        another workload, whose kernels may copy them once into a layout that suits them (see
        ``invalidate``).

        Runs on the current stream of the tensors' device. Raises BadInput where the tensors do
        not fit, Miss as ``on_miss`` says.
        """
        try:
            kinds = (kind(a), kind(b), kind(bias), kind(residual), kind(out))
            key = (*kinds, trans_a, trans_b, activation, out_dtype, precision, constant)
            plan = self._plans.get(key)
        except (AttributeError, TypeError):  # what is wrong is said below
            key, plan = None, None
        if plan is not None:
            inputs = [t for t in (a, b, bias, residual) if t is not None]
            if (made := plan.run(inputs, out)) is not None:
                return made
        optional = {"bias": bias, "residual": residual, "out": out}
        given = {name: tensor for name, tensor in optional.items() if tensor is not None}
        tensors = {"a": a, "b": b, **given}
        device = check_device(tensors)
        check_gradient(tensors)
        given.pop("out", None)
        as_given = (a, b)
        if a.dim() in (2, 3) and b.dim() == a.dim():
            (a, trans_a), (b, trans_b) = product.stored(a, trans_a), product.stored(b, trans_b)
        signature = product.signature_of(
            a, b, trans_a, trans_b, given, activation, out_dtype, precision, constant
        )
        if 0 in signature.output_shape:
            return product.empty_result(signature, out, device)
        if signature.k == 0:
            signature, a, b = product.one_deep(signature, a, b)
            key = None
        workload = product.workload_of(signature)
        for other, left, right in product.other_readings(signature, a, b):
            read = product.workload_of(other)
            if self._relatives.fitting(read, (left, right, *given.values()), out) is not None:
                workload, a, b = read, left, right
                break
        result = self._run(workload, {"a": a, "b": b, **given}, out, device)
        if key is not None and result.found is not None:
            turned = (a is not as_given[0], b is not as_given[1], *(False for _ in given))
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[key] = Plan(result.engine, result.found, device, turned)
        return result.output

    def compute(
        self, workload: Workload, *tensors: torch.Tensor, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Compute any workload from its inputs, in its order and stored as it says.

        Raises BadInput where the tensors do not fit, Miss as ``on_miss`` says.
        """
        ready = self._calls.get(workload.key)
        if ready is not None and (made := ready.run(tensors, out)) is not None:
            return made
        names = [tensor.name for tensor in workload.inputs]
        if len(tensors) != len(names):
            raise WrongShape(f"the workload takes {len(names)} inputs, not {len(tensors)}")
        inputs = dict(zip(names, tensors, strict=True))
        every = inputs if out is None else {**inputs, "out": out}
        device = check_device(every)
        check_gradient(every)
        ran = self._run(workload, inputs, out, device)
        if ran.found is not None and ran.found.key == workload.key:
            plan = Plan(ran.engine, workload, device, ())
            self._calls[workload.key] = Prepared(plan, workload, device, self.compute)
        return ran.output

    def prepare(self, workload: Workload, device: torch.device | str | int = "cuda") -> Prepared:
        """Return ``workload`` made ready on ``device``, to be called with its inputs and ``out``.

        A call then costs the host little more than starting the kernel. What serves is decided
        and compiled here, as a first call would. Raises BadInput on a device that serves no
        kernels, Miss as ``on_miss`` says.
        """
        place = indexed(torch.device(device))
        check_device({"device": torch.empty(0, device=place)})
        engine = self._engine(workload, place)
        plan = Plan(engine, workload, place, ())
        return Prepared(plan, workload, place, self.compute)

    def plan(self, workload: Workload) -> Plan | None:
        """Return how ``workload`` is computed on the device where it last was; None before."""
        ready = self._calls.get(workload.key)
        return ready.plan if ready is not None else None

    def lookup(self, workload: Workload) -> Served:
        """Return what serves ``workload``, from where and why. Needs no GPU, compiles nothing.

        After a call it is what served it; before, what would be tried first.
        """
        for (key, _), (served, _) in list(self._ready.items()):
            if key == workload.key:
                return served
        if workload.key not in self._looked_up:
            self._looked_up[workload.key] = next(iter(self._ways(workload)))
        return self._looked_up[workload.key]

    def explain(self, workload: Workload) -> Explanation:
        """Return what serves ``workload`` and why, and what would come next. Compiles nothing."""
        ready = next(
            (s for (key, _), (s, _) in list(self._ready.items()) if key == workload.key), None
        )
        return explanation(workload, self._ways(workload), ready)

    def workloads(self) -> tuple[Workload, ...]:
        """Return the workloads that the log may serve here, as far as its runs state them."""
        specs = {k: s for k, s in self._catalog.specs.items() if k in self._catalog.best}
        return tuple(w for w in stated(specs).values() if isinstance(w, Workload))

    def warm(
        self, workloads: Sequence[Workload] | None = None, *, jobs: int | None = None
    ) -> tuple[Warmed, ...]:
        """Compile and load what serves these workloads, all that the log states by default.

        Kernels are built by ``jobs`` processes (as many as there are cores), into Triton's cache
        on disk, which later processes find again; then each is loaded, so that no first call
        waits. Returns what was done, a line each. Raises WrongDevice without a GPU.
        """
        device = check_device({"device": torch.empty(0, device=_serving_device())})
        wanted = self.workloads() if workloads is None else tuple(workloads)
        programs = [served.program for served in map(self.lookup, wanted) if served.program]
        if self._here.target is not None:
            build_ahead(programs, self._here.target, jobs or len(os.sched_getaffinity(0)))
        return tuple(self._warmed(workload, device) for workload in wanted)

    def _warmed(self, workload: Workload, device: torch.device) -> Warmed:
        begun = time.perf_counter()
        label = workload.label or workload.key
        try:
            self._engine(workload, device)
        except (Miss, NothingServes) as error:
            return Warmed(label, "", str(error), time.perf_counter() - begun)
        served = self.lookup(workload)
        return Warmed(label, served.source, served.reason, time.perf_counter() - begun)

    @property
    def packed_bytes(self) -> int:
        """The device memory that copies of constant tensors hold."""
        return self._packs.bytes

    def invalidate(self, tensor: torch.Tensor | None = None) -> None:
        """Forget the copies made of a constant tensor's memory, or of all: the next call copies.

        Not needed after changes in place that torch counts, nor when a tensor is freed; needed
        after changes through ``.data``, by custom kernels or from outside of torch.
        """
        self._packs.invalidate(tensor)

    def freeze(self, tensor: torch.Tensor) -> None:
        """Vouch that a tensor's memory is not changed unless ``invalidate`` is called after.

        For tensors made under ``torch.inference_mode``, in which torch counts no changes: without
        this they are copied on every call. Inside a CUDA graph capture only frozen tensors are
        served by copies made before; the graph must not outlive the tensor, nor ``invalidate``.
        """
        self._packs.freeze(tensor)

    def summary(self) -> str:
        """Return what the log holds and what of it may be served here, a line each."""
        return summary(self._catalog, self._here.gpu, self._source, self._packs.bytes)

    def __repr__(self) -> str:
        census = {str(reason): n for reason, n in self._catalog.refusals().items()}
        census |= {"damaged": len(self._catalog.damage)} if self._catalog.damage else {}
        rest = "".join(f", {n} {reason}" for reason, n in census.items())
        served = count(len(self._catalog.best), "workload")
        return f"<Tuned {self._source!r}: {served} served{rest}>"

    def _run(
        self,
        workload: Workload,
        inputs: Mapping[str, torch.Tensor],
        out: torch.Tensor | None,
        device: torch.device,
    ) -> _Ran:
        if self._relatives.any(workload):
            tensors = tuple(inputs.values())
            workload = self._relatives.fitting(workload, tensors, out) or workload
        bound = []
        copied = False
        for (name, tensor), wish in zip(inputs.items(), workload.inputs, strict=True):
            made = bind_input(name, tensor, wish)
            if made.copied_bytes:
                copied = True
                self._warn_copy(workload, name, tensor, wish, made.copied_bytes)
            bound.append(made.tensor)
        if out is not None:
            check_output(out, workload.output, device, inputs)
        engine = self._engine(workload, device)
        lasts = not copied and holds(workload) and (workload.key, device) in self._ready
        return _Ran(engine.run(bound, out), engine, workload if lasts else None)

    def _engine(self, workload: Workload, device: torch.device) -> Engine:
        """Return what computes ``workload`` on ``device``, made ready by the first thread."""
        key = (workload.key, device)
        if (ready := self._ready.get(key)) is not None:
            return ready[1]
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._ready:
                served, engine = self._first_that_works(workload, device)
                if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
                    return engine  # torch for this capture; the next call looks again
                self._ready[key] = (served, engine)
            return self._ready[key][1]

    def _first_that_works(self, workload: Workload, device: torch.device) -> tuple[Served, Engine]:
        tried: list[str] = []
        for served in self._candidates(workload, device):
            reason = "; ".join((served.reason, *tried))
            if served.missed and self._on_miss == "error":
                raise Miss(f"{workload.label or workload.key}: {reason}")
            engine = engine_of(served, self._here.target, device, self._packs)
            if not isinstance(engine, str):
                self._say(workload, served, reason)
                if served.missed and self._may_be_tuned(workload, device):
                    self._background.ask(workload)  # type: ignore[union-attr]
                return served, engine
            tried.append(engine)
        raise NothingServes(f"{workload.label or workload.key}: {'; '.join(tried)}")

    def _candidates(self, workload: Workload, device: torch.device) -> Iterable[Served]:
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            reason = "a first call inside a CUDA graph capture: call once before capturing"
            return [Served(workload, "library", reason)]
        if device.type == "cuda" and gpu_name(device) != self._here.gpu:
            reason = f"the log was loaded for {self._here.gpu}, {device} is {gpu_name(device)}"
            return [Served(workload, "library", reason)]
        return self._ways(workload)

    def _may_be_tuned(self, workload: Workload, device: torch.device) -> bool:
        """Say whether a tuner here may find what the log lacks: not on another GPU than its."""
        foreign = device.type == "cuda" and gpu_name(device) != self._here.gpu
        return (
            self._background is not None and workload.key not in self._catalog.best and not foreign
        )

    def _reload(self, workload: Workload) -> None:
        """Read the log again; the next call of ``workload`` is served by what it holds now."""
        if self._again is None:
            return
        catalog = self._again()
        with self._lock:
            self._catalog = catalog
            self._relatives = Relatives(catalog.best)
            locks = [(key, held) for key, held in self._locks.items() if key[0] == workload.key]
        for key, held in locks:
            with held:  # a first call under way is over, and what it found goes too
                self._ready.pop(key, None)
        self._looked_up.clear()
        self._plans.clear()
        self._calls.clear()

    def _ways(self, workload: Workload) -> Iterable[Served]:
        return choices(workload, self._catalog, self._here, self._prefer, self._buckets)

    def _say(self, workload: Workload, served: Served, reason: str) -> None:
        """Tell once per workload that something other than a tuned kernel serves."""
        _LOG.info("%s is served by %s: %s", workload.label, served.source, reason)
        if not served.missed or self._on_miss != "warn":
            return
        text = f"{workload.label or workload.key} is served by {served.source}: {reason}"
        self._warn_once((workload.key, ""), lambda: warnings.warn(text, MissWarning, 7))

    def _warn_copy(
        self,
        workload: Workload,
        name: str,
        tensor: torch.Tensor,
        wish: Tensor,
        copied_bytes: int,
    ) -> None:
        text = (
            f"{name} is copied before each run of {workload.label or workload.key}: "
            f"{copied_bytes} bytes, as it has strides {tuple(tensor.stride())} and an address "
            f"aligned to {aligned_bytes(tensor)} bytes, where {wish.strides} and "
            f"{wish.alignment_bytes} are wanted; make it so once, or tune this workload with "
            "those strides and alignment, to save that"
        )
        self._warn_once((workload.key, name), lambda: warnings.warn(text, CopyWarning, 5))

    def _warn_once(self, about: tuple[str, str], warn: Callable[[], None]) -> None:
        with self._lock:
            if about in self._warned:
                return
            self._warned.add(about)
        warn()


def _serving_device() -> torch.device:
    if not interpreting() and not torch.cuda.is_available():
        raise WrongDevice("this machine has no GPU that torch can use: nothing can be made ready")
    return torch.device("cpu") if interpreting() else torch.device("cuda")
