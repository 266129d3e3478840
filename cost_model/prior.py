"""What earlier measurements of other workloads tell of one: a model of them, and their rows.

A prior is a file: one JSON line of head, the rows as raw arrays, the trees that were grown of
them, all compressed (xz), with the SHA-256 of it at the end. Trees are used by the version of
xgboost that grew them and grown again by any other; rows are of one schema of features, and of
use under no other.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.dataset import Dataset
from cost_model.features import NAMES, schema_hash
from cost_model.settings import BadPrior, ModelSettings, read
from cost_model.xgboost_model import XGBoostModel, learner_version

SUFFIX = ".prior.xz"
FORM = 1
#: Unpacked, no prior comes near this: a file that unpacks to more is refused.
LARGEST_BYTES = 1 << 28
#: How the model of a prior learns: what it says is a start, so that no optimism is in it.
SETTINGS = ModelSettings(optimism=0.0)
#: Rows with a time without which there is no prior.
FEWEST = 64
_DIGEST = 32


class StalePrior(BadPrior):
    """A sound prior that is of no use here; the message says why, and what to do."""


@dataclass(frozen=True)
class Prior:
    """Rows of earlier measurements, and the model of them. ``digest`` names both."""

    target: str
    dataset: Dataset
    model: XGBoostModel
    digest: str

    def log_efficiency(self, table: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return predictions [rows] for rows of features, of a workload that it does not know."""
        return self.model.predict_table(table, "").mean

    def without(self, workload: str) -> Prior:
        """Return the prior of all rows but those of the workload with that key."""
        kept = np.array([key != workload for key in self.dataset.workloads])
        if kept.all():
            return self
        settings = read(ModelSettings, self.model.settings)
        return build(self.dataset.take(kept), self.target, settings=settings)


def build(
    dataset: Dataset, target: str, threads: int = 1, settings: ModelSettings = SETTINGS
) -> Prior:
    """Learn a prior of rows of today's schema. Raises BadPrior where they are too few."""
    timed = int(dataset.valid.sum())
    if timed < FEWEST or dataset.schema != schema_hash():
        raise BadPrior(f"a prior takes {FEWEST} rows with a time, not {timed}")
    model = XGBoostModel(0, settings, threads=threads)
    model.fit(dataset)
    return Prior(target, dataset, model, _digest(dataset, target, settings))


def to_bytes(prior: Prior) -> bytes:
    """Return the file of a prior: equal priors, equal bytes."""
    data = prior.dataset
    trees = prior.model.grown
    keys = list(dict.fromkeys(data.workloads))
    head = {
        "form": FORM,
        "target": prior.target,
        "schema": data.schema,
        "settings": prior.model.settings,
        "xgboost": learner_version(),
        "rows": len(data),
        "columns": data.features.shape[1],
        "workloads": keys,
        "trees": [len(one) for one in trees],
    }
    line = json.dumps(head, sort_keys=True, separators=(",", ":")).encode("ascii") + b"\n"
    body = line + b"".join((*_arrays(data), *trees))
    return lzma.compress(body, preset=6) + hashlib.sha256(body).digest()


def from_bytes(data: bytes, threads: int = 1) -> Prior:
    """Read a prior. Raises BadPrior, and StalePrior where its features are others than today's."""
    body = _unpacked(data)
    line, _, rest = body.partition(b"\n")
    try:
        head: Any = json.loads(line)
        if head["form"] != FORM:
            raise BadPrior(f"its form is {ascii(head['form'])[:20]}; this version reads {FORM}")
        if head["schema"] != schema_hash() or head["columns"] != len(NAMES):
            raise StalePrior(
                f"its features are of schema {str(head['schema'])[:12]!a}, and those of this "
                f"version of {schema_hash()}: build it again with `autosched prior build`"
            )
        settings = read(ModelSettings, head["settings"])
        dataset, trees = _dataset(head, rest)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, BadPrior):
            raise
        raise BadPrior(f"it cannot be read: {error}") from error
    if head["xgboost"] != learner_version():
        return build(dataset, head["target"], threads, settings)
    model = XGBoostModel(0, settings)
    model.restore(dataset, trees)
    return Prior(head["target"], dataset, model, _digest(dataset, head["target"], settings))


def load(path: Path, threads: int = 1) -> Prior:
    """Read the prior of a file. Raises BadPrior, StalePrior, OSError."""
    try:
        return from_bytes(path.read_bytes(), threads)
    except BadPrior as error:
        raise type(error)(f"{path}: {error}") from error


def shipped(target: str) -> Path | None:
    """Return the file of the prior that is shipped for a target, if there is one."""
    path = resources.files("cost_model").joinpath("data", target + SUFFIX)
    return Path(str(path)) if path.is_file() else None


def _arrays(data: Dataset) -> tuple[bytes, ...]:
    """Return the arrays as bytes, columns of features one after another: so they compress."""
    return (
        np.ascontiguousarray(data.features.T, "<f4").tobytes(),
        data.log_efficiency.astype("<f8").tobytes(),
        data.analytic.astype("<f8").tobytes(),
        data.groups.astype("<i4").tobytes(),
    )


def _dataset(head: Mapping[str, Any], rest: bytes) -> tuple[Dataset, list[bytes]]:
    rows, columns = int(head["rows"]), int(head["columns"])
    sizes = [4 * rows * columns, 8 * rows, 8 * rows, 4 * rows, *map(int, head["trees"])]
    if min(sizes) < 0 or sum(sizes) != len(rest):
        raise BadPrior(f"it holds {len(rest)} bytes, and says {sum(sizes)}")
    table, wanted, analytic, groups, *trees = _cut(rest, sizes)
    keys = [str(key) for key in head["workloads"]]
    numbers = np.frombuffer(groups, "<i4").tolist()
    dataset = Dataset(
        np.frombuffer(table, "<f4").reshape(columns, rows).T.astype(np.float32),
        np.frombuffer(wanted, "<f8").astype(np.float64),
        np.frombuffer(analytic, "<f8").astype(np.float64),
        tuple(keys[n] for n in numbers),
        str(head["schema"]),
    )
    return dataset, trees


def _cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    ends = np.cumsum(sizes).tolist()
    return [data[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def _unpacked(data: bytes) -> bytes:
    try:
        decoder = lzma.LZMADecompressor()
        body = decoder.decompress(data[:-_DIGEST], LARGEST_BYTES)
    except lzma.LZMAError as error:
        raise BadPrior(f"it is no prior: {error}") from error
    if not decoder.eof or hashlib.sha256(body).digest() != data[-_DIGEST:]:
        raise BadPrior("it was cut short, or something in it has changed")
    return body


def _digest(data: Dataset, target: str, settings: ModelSettings) -> str:
    """Return 16 hex digits over all that trees are grown of."""
    digest = hashlib.sha256(f"{target} {data.schema} {data.workloads} {settings}".encode())
    for part in _arrays(data):
        digest.update(part)
    return digest.hexdigest()[:16]
