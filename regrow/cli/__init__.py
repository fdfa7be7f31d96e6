"""The ``regrow`` command: one small file for each group of commands, all thin over the public API.

Exit codes: 0 done; 1 refused, or the answer is no; 2 the command line or the input is wrong; 3 Redis cannot be asked;
4 the signal is a dead letter; 5 no answer in time; 78 the application cannot be loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from regrow.cli.group import cli
from regrow.cli.output import DEAD, NOT_IN_TIME
from regrow_signals.errors import (
    ApplicationError,
    AskTimeout,
    BadInput,
    Dead,
    DeadLettersFull,
    NoSuchAgent,
    RegrowError,
    StoreError,
    StoreUnavailable,
)

__all__ = ["main", "run_words", "cli"]


def main() -> None:
    """The program: runs the command line and leaves with its exit code."""
    sys.exit(run_words(sys.argv[1:]))


def run_words(words: Sequence[str]) -> int:
    """Run one command line; an error of ours is one line on stderr and an exit code that means something."""
    try:
        code = cli.main(args=list(words), prog_name="regrow", standalone_mode=False)
    except click.exceptions.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except RegrowError as error:
        click.echo(f"regrow: {error}{advice_on(error)}", err=True)
        return exit_code_of(error)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone (`| head`): say nothing more
        return 0
    return code if isinstance(code, int) else 0


def advice_on(error: RegrowError) -> str:
    """What to type next, where the error itself cannot know that it is shown at a prompt."""
    if isinstance(error, NoSuchAgent) and "regrow tree" not in str(error):
        return "; `regrow tree` shows those there are"
    if isinstance(error, StoreUnavailable) and "cannot be reached" in str(error):
        return "; start it, or correct REDIS_URL"
    if isinstance(error, AskTimeout):
        return f"; ask on with --id {error.receipt.signal_id}"
    if isinstance(error, Dead):
        return f"; `regrow dead list {error.receipt.agent}`"
    if isinstance(error, DeadLettersFull):
        return " (`regrow dead`)"
    return ""


def exit_code_of(error: RegrowError) -> int:
    """The exit code that an error of ours stands for."""
    if isinstance(error, ApplicationError):
        return 78
    if isinstance(error, BadInput):
        return 2
    if isinstance(error, Dead):
        return DEAD
    if isinstance(error, AskTimeout):
        return NOT_IN_TIME
    return 3 if isinstance(error, StoreError) else 1
