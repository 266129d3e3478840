"""The page of features, docs/features.md: python -m cost_model.feature_page > docs/features.md"""

from __future__ import annotations

import sys

from cost_model.feature_list import FEATURES, GROUPS
from cost_model.features import schema_hash

ABOUT = {
    "choices": "The choices themselves; one that a sketch lacks has its default.",
    "shape": "The work, and what whole blocks of it add.",
    "block": "The block of one program, and what it occupies.",
    "grid": "Programs, and how they fill the multiprocessors.",
    "loop": "The loop over K.",
    "bytes": "What moves between memory, L2 and the multiprocessors.",
    "analytic": "The terms of the analytic model.",
    "structure": "What the sketch is, whatever is chosen.",
    "compiled": "What the compiler made of it: known once a candidate is built, missing before.",
}


def page() -> str:
    """Return the page as Markdown."""
    lines = [
        "# Features",
        "",
        "What a learned cost model sees of a candidate, computed from its choices, its sketch and",
        "the target, without replaying a nest; a test holds them equal to those of the replayed",
        "nest. A number that does not apply, or is not known, is missing.",
        "",
        f"Schema {schema_hash()}: a hash of names, units and formulas in this order. A model that",
        "was trained under another is not used. This page is written by",
        "",
        "    python -m cost_model.feature_page > docs/features.md",
    ]
    for group in GROUPS:
        lines += ["", f"## {group.capitalize()}", "", ABOUT[group], ""]
        lines += ["| name | unit | formula |", "|---|---|---|"]
        lines += [
            f"| `{f.name}` | {f.unit} | {_cell(f.formula)} |" for f in FEATURES if f.group == group
        ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


if __name__ == "__main__":
    sys.stdout.write(page())
