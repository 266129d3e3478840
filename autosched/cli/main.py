"""The group of commands: finds them by name, and turns whatever ends one into an exit code."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from autosched import __version__
from autosched.cli.errors import verdict
from autosched.cli.exit_code import ExitCode
from autosched.cli.output import verbose_wished

#: Commands in the order of a first session; each is ``command`` in the module of its name.
COMMANDS = (
    "doctor",
    "tune",
    "show",
    "bench",
    "log",
    "replay",
    "export",
    "record",
    "landscapes",
    "experiment",
    "explain",
    "extract",
    "prior",
    "schema",
)


class Program(click.Group):
    """Imports a command's module only when it is asked for, so that ``--help`` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """Return the names in the order they are shown."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"autosched.cli.{cmd_name}_command")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments begin with; a wrong name is told the nearest."""
        near = difflib.get_close_matches(args[0], COMMANDS, n=1)
        if args[0] in COMMANDS or not near:
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"No such command {args[0]!r}. Did you mean {near[0]!r}?", ctx)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        *_: Any,
        **extra: Any,
    ) -> NoReturn:
        """Run one command and exit with a code of the contract; never returns."""
        arguments = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        sys.exit(self._run(arguments, prog_name or "autosched", extra))

    def _run(self, arguments: list[str], prog_name: str, extra: dict[str, Any]) -> ExitCode:
        try:
            # Not standalone, click returns the code that a command gave to ctx.exit.
            return ExitCode(super().main(arguments, prog_name, **extra) or ExitCode.DONE)
        except click.ClickException as error:
            error.show()
            return ExitCode.USAGE
        except BrokenPipeError:
            # Whoever read our output has all they wanted; keep the flush at exit quiet.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return ExitCode.DONE
        except (KeyboardInterrupt, click.Abort):
            click.echo("autosched: interrupted", err=True)
            return ExitCode.INTERRUPTED
        except Exception as error:  # noqa: BLE001 (the last line of defence: exit code 70)
            return _report(error, verbose=verbose_wished(arguments))


def _report(error: Exception, *, verbose: bool) -> ExitCode:
    code, sentence = verdict(error)
    if code is ExitCode.FAULT and verbose:
        traceback.print_exception(error)
    click.echo(f"autosched: {sentence}", err=True)
    return code


@click.group(
    "autosched",
    cls=Program,
    context_settings={"auto_envvar_prefix": "AUTOSCHED", "help_option_names": ["-h", "--help"]},
    epilog="Every option can be set by an environment variable: AUTOSCHED_TUNE_TRIALS is "
    "tune --trials. Data goes to standard output, all else to standard error.",
)
@click.version_option(__version__, prog_name="autosched")
def main() -> None:
    """Find fast GPU kernels for tensor computations, measure them and serve the best."""


if __name__ == "__main__":
    main()
