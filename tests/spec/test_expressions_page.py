"""Every example of docs/expressions.md says what the page says it does."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from autosched.spec import load
from autosched.te import text

PAGE = (Path(__file__).parents[2] / "docs/expressions.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


LINES = [line for block in blocks("text") for line in block.splitlines()]


@pytest.mark.parametrize("block", blocks("yaml"))
def test_blocks_load_and_read_back(block: str, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(block, encoding="utf-8")
    for task in load(str(spec)):
        form = text.printer.form(task.workload)
        assert text.read(form).key == task.workload.key


@pytest.mark.parametrize("line", LINES)
def test_lines_load(line: str) -> None:
    (task,) = load(line)
    assert task.workload.operations > 0


def test_the_python_runs() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks("python"):
            exec(block, {})
    assert "sum= mul(" in printed.getvalue()
    assert len(blocks("yaml")) >= 5
    assert LINES
