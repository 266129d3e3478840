"""What a log holds and what of it may be served, in words. Knows no tensors."""

from __future__ import annotations

from autosched.runtime.catalog import Catalog


def summary(catalog: Catalog, gpu: str | None, source: str, packed_bytes: int) -> str:
    """Return the census of the log at ``source`` and its best records, a line each."""
    lines = [
        f"{source}: {count(len(catalog.best), 'workload')} served "
        f"on {gpu or 'a machine without a GPU'}",
        f"{count(catalog.trials, 'trial')}, {catalog.failed} failed, "
        f"{sum(catalog.usable.values())} usable",
    ]
    lines += [f"{n} not served: {reason}" for reason, n in catalog.refusals().most_common()]
    if packed_bytes:
        lines.append(f"{packed_bytes} bytes hold copies of constant tensors")
    lines += [f"line {d.line} is damaged: {d.reason}" for d in catalog.damage]
    for record in sorted(catalog.best.values(), key=lambda record: record.workload.label):
        sketch = record.schedule.get("sketch", "hand")
        line = f"{record.workload.label}: {record.latency_us:.4g} us by {sketch}"
        lines.append("  " + "".join(c if c.isprintable() else "?" for c in line))
    return "\n".join(lines)


def count(number: int, noun: str) -> str:
    """Return a number of things: "1 trial", "2 trials"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
