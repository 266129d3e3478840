"""``autosched doctor``: what was found on this machine, and what is in force."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from dataclasses import asdict

import click

from autosched.cli.output import Output, with_output
from autosched.machine import Machine, UnknownName, choose_machine
from measure.doctor import Report, examine

PREFIX = "AUTOSCHED_"


@click.command("doctor")
@with_output
@click.pass_context
def command(ctx: click.Context, /, output: Output) -> None:
    """Say what was found, what is missing and what that costs, and what is in force."""
    report = examine()
    machine = in_force(report)
    settings = list(environment(ctx.find_root().command, dict(os.environ)))
    if output.json:
        output.value(
            {
                "facts": [asdict(fact) for fact in report.facts],
                "gpus": [asdict(gpu) for gpu in report.gpus],
                "states": [asdict(state) for state in report.states],
                "device": machine.device if isinstance(machine, Machine) else None,
                "target": machine.target.name if isinstance(machine, Machine) else None,
                "reason": machine.reason if isinstance(machine, Machine) else machine,
                "environment": [{"name": name, "sets": meaning} for name, meaning in settings],
            }
        )
        return
    output.text("\n".join(_lines(report, machine, settings)))


def in_force(report: Report) -> Machine | str:
    """Return what ``--device auto`` comes to, or why it comes to nothing."""
    try:
        return choose_machine("auto", None, lambda: report.gpus)
    except UnknownName as error:
        return str(error)


def environment(group: click.Command, held: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield every variable of ours that is set, and what it sets; strange ones name the nearest."""
    known = dict(variables(click.Context(group, info_name="autosched"), PREFIX.rstrip("_")))
    for name in sorted(held):
        if not name.startswith(PREFIX):
            continue
        if name in known:
            yield name, f"{known[name]} is {held[name]}"
        else:
            near = difflib.get_close_matches(name, known, n=1)
            yield name, "sets nothing" + (f", did you mean {near[0]}" if near else "")


def variables(ctx: click.Context, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the variable of every option below a command, and the option as it is typed."""
    command = ctx.command
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            if child is not None:
                below = click.Context(child, info_name=name, parent=ctx)
                yield from variables(below, f"{prefix}_{name.upper()}")
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name:
            words = ctx.command_path.split()[1:]
            # A parameter whose name is not the flag's says its variable itself.
            variable = parameter.envvar or f"{prefix}_{parameter.name.upper()}"
            yield str(variable), " ".join([*words, parameter.opts[-1]])


def _lines(
    report: Report, machine: Machine | str, settings: list[tuple[str, str]]
) -> Iterator[str]:
    width = max(len(fact.name) for fact in report.facts)
    for fact in report.facts:
        sign, text = ("  ", fact.value) if fact.found else ("! ", f"missing: {fact.missing}")
        yield f"{sign}{fact.name:<{width}}  {text}"
    for gpu, state in zip(report.gpus, report.states, strict=False):
        yield (
            f"  GPU {gpu.index}: {gpu.name}, target {gpu.target or 'unknown'}, "
            f"{state.sm_clock_mhz} of {state.max_sm_clock_mhz} MHz, {state.temperature_c} C, "
            f"{state.processes} processes"
        )
    yield "in force"
    if isinstance(machine, Machine):
        yield f"  --device auto is {machine.device}: {machine.reason}"
        yield f"  --target is {machine.target.name}"
    else:
        yield f"! {machine}"
    for name, meaning in settings:
        yield f"  {name}: {meaning}"
    if not settings:
        yield f"  no {PREFIX}* variable is set"
