"""The page of an experiment: whole, alone, and the same for the same folder."""

import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from autosched.experiment import drawing
from autosched.experiment.drawing import Line, Panel
from autosched.experiment.error import BadFolder, MissingPackage
from autosched.experiment.report import report


class Page(HTMLParser):
    """What a page holds: ids, headings, what it would load, and whether tags close in order."""

    VOID = ("meta", "link", "img", "br", "path", "use", "rect", "line", "circle")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.loads += [str(held[name]) for name in ("src", "href", "xlink:href") if name in held]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def text(done: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "page.html"
    assert report(done, path) == path
    return path.read_text("utf-8")


def test_it_is_whole_and_loads_nothing(text: str) -> None:
    page = Page(text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert page.loads
    assert all(load.startswith("#") and load[1:] in page.ids for load in page.loads)
    assert not re.search(r"@import|url\((?!#)|<script|<link|<img", text)


def test_it_says_what_was_asked_and_what_came_of_it(text: str) -> None:
    words = " ".join(Page(text).text)
    parts = ("Which of three is best?", "Times are made up", "Answer", "Best so far", "How soon")
    more = ("Regret at checkpoints", "Score", "Failures", "Finals", "Noise floor", "numpy")
    arms = ("guided", "learning", "random", "(random, calculated)", "Expected against measured")
    missing = [part for part in (*parts, *more, *arms, "sha256:") if part not in words]
    assert missing == []


def test_it_is_the_same_again_and_the_reader_chooses_light_or_dark(
    done: Path, text: str, tmp_path: Path
) -> None:
    assert report(done, tmp_path / "again.html").read_text("utf-8") == text
    assert "prefers-color-scheme: dark" in text
    assert drawing.TEXT not in text
    assert "currentColor" in text


def test_text_from_a_file_is_no_markup(done: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(done, tmp_path / "copy"))
    resolved = folder / "resolved.yaml"
    resolved.write_text(resolved.read_text().replace("Which of", "Which <b> of"))
    assert "Which &lt;b&gt; of" in report(folder).read_text("utf-8")


def test_what_is_not_done_has_no_page(done: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(done, tmp_path / "copy"))
    (folder / "summary.json").unlink()
    with pytest.raises(BadFolder, match=r"has no summary.json"):
        report(folder)


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_a_missing_package_is_named_with_what_installs_it(
    package: str, done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackage, match=rf"{package}: python -m pip install 'autosched\[rep"):
        report(done, tmp_path / "page.html")


def test_figures_are_the_same_for_the_same_data_and_named_apart() -> None:
    panel = Panel("x", "y", [Line("a", [1, 2], [0.5, 1], [0.4, 0.9], [0.6, 1])])
    first, again, other = (drawing.curves([panel], name) for name in ("one", "one", "two"))
    assert first == again
    assert set(Page(first).ids).isdisjoint(Page(other).ids)
