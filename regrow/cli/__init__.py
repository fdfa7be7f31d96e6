"""The ``regrow`` command: one small file for each group of commands, all thin over the public API.

Exit codes: 0 done; 1 refused, or the answer is no; 2 the command line or the input is wrong; 3 Redis cannot be asked;
78 the application cannot be loaded.
"""

from __future__ import annotations

import sys

import click

from regrow.cli.group import cli
from regrow_signals.errors import ApplicationError, BadInput, RegrowError, StoreError

__all__ = ["main", "cli"]


def main() -> None:
    """Run the command line; an error of ours is one line on stderr and an exit code that means something."""
    try:
        code = cli.main(prog_name="regrow", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except RegrowError as error:
        click.echo(f"regrow: {error}", err=True)
        sys.exit(exit_code_of(error))
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone (`| head`): say nothing more
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)


def exit_code_of(error: RegrowError) -> int:
    """The exit code that an error of ours stands for."""
    if isinstance(error, ApplicationError):
        return 78
    if isinstance(error, BadInput):
        return 2
    return 3 if isinstance(error, StoreError) else 1
