"""docs/strategies.md names every strategy, and every setting with its default."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from autosched.tune import strategies
from autosched.tune.gain import LEAST_GAIN
from autosched.tune.grid import WHOLE

PAGE = (Path(__file__).parents[2] / "docs" / "strategies.md").read_text(encoding="utf-8")
#: Settings that are None: what stands for it.
NOTHING = {"horizon": "of the effort", "restart_after": "none"}


def rows(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^\| `(\w+)` \| `?([\w. ]+?)`? \|", text, re.MULTILINE)


@pytest.mark.parametrize("name", strategies.names())
def test_every_setting_is_on_the_page_with_its_default(name: str) -> None:
    assert f"\n| `{name}` |" in PAGE
    settings = fields(strategies.settings_of(name))
    section = PAGE.partition(f"\n## `{name}`\n")[2].partition("\n## ")[0]
    wanted = [(f.name, NOTHING.get(f.name, str(f.default))) for f in settings]
    assert sorted(rows(section)) == sorted(wanted)


def test_its_numbers_are_those_of_the_code() -> None:
    assert f"more than {100 * LEAST_GAIN:g} %" in PAGE
    assert f"more than {WHOLE:,} combinations" in PAGE
