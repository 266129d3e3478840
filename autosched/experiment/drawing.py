"""Figures as SVG text that is the same for the same data. Knows arrays, and no folder.

Text and axes are drawn in the colour of the page around them, so that one figure serves a light
and a dark page. Needs matplotlib, which is loaded when the first figure is drawn.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from autosched.experiment.error import MissingPackage

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours that people with any colour vision tell apart (Okabe and Ito), on light and on dark.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7f7f7f")
STYLES = ("solid", "dashed", "dotted", "dashdot")
#: Stands for the colour of the page's text until the figure is put into one.
TEXT = "#123456"
INSTALL = "python -m pip install 'autosched[report]'"
#: No figure shows more points than this.
MOST_POINTS = 1500


@dataclass(frozen=True)
class Line:
    """A curve with its band, arrays of equal lengths; NaN where there is nothing."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Panel:
    """Curves on one pair of axes."""

    xlabel: str
    ylabel: str
    lines: Sequence[Line]
    log_x: bool = False
    from_y: float | None = None
    to_y: float | None = None


def curves(panels: Sequence[Panel], name: str) -> str:
    """Draw panels side by side, with one legend; equal labels have equal colours."""
    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))

    def draw(axes: Sequence[Axes]) -> None:
        for panel, ax in zip(panels, axes, strict=True):
            for line in panel.lines:
                _curve(ax, line, labels.index(line.label))
            ax.set_xlabel(panel.xlabel)
            ax.set_ylabel(panel.ylabel)
            if panel.log_x:
                ax.set_xscale("log")
            ax.set_ylim(panel.from_y, panel.to_y)
        handles, shown = axes[0].get_legend_handles_labels()
        if handles:
            axes[0].figure.legend(
                handles, shown, loc="outside lower center", ncols=4, frameon=False
            )

    rows = -(-len(labels) // 4)
    return _figure(draw, len(panels), 3.2 + 0.22 * rows, name)


def _curve(ax: Axes, line: Line, number: int) -> None:
    if line.label.startswith("("):
        colour, style = TEXT, "dotted"
    else:
        colour = COLOURS[number % len(COLOURS)]
        style = STYLES[number // len(COLOURS) % len(STYLES)]
    ax.plot(line.x, line.y, color=colour, linestyle=style, label=line.label, linewidth=1.6)
    if len(line.low):
        ax.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)


def scatter(
    points: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    xlabel: str,
    ylabel: str,
    name: str,
) -> str:
    """Draw a panel for each label, points of x and y on logarithmic axes with the diagonal."""
    ticker = _matplotlib("matplotlib.ticker")

    def draw(axes: Sequence[Axes]) -> None:
        for (label, (x, y)), ax in zip(points.items(), axes, strict=True):
            step = max(1, -(-len(x) // MOST_POINTS))
            ax.scatter(x[::step], y[::step], s=5, color=COLOURS[0], alpha=0.35, linewidths=0)
            ends = (min(*x, *y), max(*x, *y))
            ax.plot(ends, ends, color=TEXT, linewidth=0.8, linestyle="dotted")
            for axis in (ax.xaxis, ax.yaxis):
                axis.axes.set(**{f"{axis.axis_name}scale": "log"})
                axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
                axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
                axis.set_minor_formatter(ticker.NullFormatter())
            ax.set_title(label, fontsize=9)
            ax.set_xlabel(xlabel)
        axes[0].set_ylabel(ylabel)

    return _figure(draw, len(points), 3.0, name)


def bars(values: Mapping[str, float], xlabel: str, name: str) -> str:
    """Draw one horizontal bar for each label, the first on top."""

    def draw(axes: Sequence[Axes]) -> None:
        labels = list(values)[::-1]
        axes[0].barh(labels, [values[label] for label in labels], color=COLOURS[0], height=0.7)
        axes[0].set_xlabel(xlabel)

    return _figure(draw, 1, 0.9 + 0.2 * len(values), name)


def _figure(draw: Callable[[Sequence[Axes]], None], panels: int, height: float, name: str) -> str:
    """Return the SVG of panels that ``draw`` fills; ``name`` keeps its ids apart from others'."""
    with _matplotlib("matplotlib").rc_context(_style(name)):
        figure = _matplotlib("matplotlib.figure").Figure(
            figsize=(max(5.0, 4.2 * panels), height), layout="constrained"
        )
        axes = figure.subplots(1, panels, squeeze=False)[0]
        for ax in axes:
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(color=TEXT, alpha=0.15, linewidth=0.6)
        draw(list(axes))
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    return _inline(stream.getvalue(), name)


def _matplotlib(module: str) -> Any:
    """Return a module of matplotlib, drawn in only by what draws. Raises MissingPackage."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingPackage(f"a report needs matplotlib: {INSTALL}") from error


def _style(name: str) -> dict[str, Any]:
    coloured = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    return {
        "svg.hashsalt": name,
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 9,
        **dict.fromkeys(coloured, TEXT),
    }


def _inline(svg: str, name: str) -> str:
    """Return the element alone, in the page's colour and font, its ids told from others'."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    element = re.sub(r'\b(id=")|(href="#)|(url\(#)', rf"\g<0>{name}-", element)
    element = re.sub(r' (width|height)="[\d.]+pt"', "", element, count=2)
    element = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", element)
    return element.replace(TEXT, "currentColor").strip()
