"""State a computation as an expression and see what serves it: python examples/serve_expression.py

Any log will do; an empty one makes everything a default, which the kernel's text shows.
"""

import sys
import tempfile
from pathlib import Path

import autosched
from autosched import te


def main(path: str) -> None:
    """Look up relu(A @ B.T) in the log at ``path``."""
    m, n, k = 96, 80, 64
    a = te.placeholder((m, k), "A", "float16")
    b = te.placeholder((n, k), "B", "float16")
    r = te.reduce_axis(k, "k")
    acc = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[j, r], axis=r), "acc")
    c = te.compute((m, n), lambda i, j: te.relu(acc[i, j]), "C")
    workload = te.workload(c, dtype="float16")

    served = autosched.load(path).lookup(workload)
    print(f"{served.source}: {served.reason}\n")
    print(served.program.source if served.program else "torch serves it")


if __name__ == "__main__":
    if sys.argv[1:]:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            empty = Path(folder) / "empty.jsonl"
            empty.touch()
            main(str(empty))
