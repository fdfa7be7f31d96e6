"""An exception as text that may be stored and shown: bounded, without local values, our own frames left out."""

from __future__ import annotations

import traceback
from types import FrameType
from typing import Final

from pydantic import ValidationError

from regrow_workers.validation import first_problem, one_line

__all__ = ["exception_line", "exception_place", "exception_trace"]

_LINE: Final = 300
_TRACE: Final = 4_000
_CHAIN: Final = 3
_FRAMES: Final = 12
_PACKAGES: Final = ("regrow", "regrow_supervisor", "regrow_workers", "regrow_signals", "importlib")
_OURS: Final = __file__.rpartition("/")[0] + "/"


def exception_line(error: BaseException) -> str:
    """``KeyError: 'x'`` as one bounded line. Pydantic's messages quote the value, which may be a secret: not ours."""
    if isinstance(error, ValidationError):
        text = f"{error.title}: {first_problem(error)}"
    else:
        try:
            text = str(error)
        except Exception:  # noqa: BLE001  an exception's own text may fail, and must not take its place
            text = "(its text cannot be made)"
    name = type(error).__qualname__
    line = one_line(f"{name}: {text}" if text else name)
    return line if len(line) <= _LINE else f"{line[:_LINE]}..."


def exception_trace(error: BaseException) -> str:
    """The traceback from the user's first frame on, causes first, cut to a bounded length from its end."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and len(chain) < _CHAIN and not any(link is one for one in chain):
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    blocks = [_block(one) for one in reversed(chain)]
    text = "\nwhich led to\n".join(blocks).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _TRACE else f"...{text[-_TRACE:]}"


def _block(error: BaseException) -> str:
    # A recursion leaves a thousand frames: both ends of them tell the story.
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)
    ]
    if len(frames) > _FRAMES:
        half = _FRAMES // 2
        lines = [*_lines(frames[:half]), f"  ... {len(frames) - 2 * half} frames", *_lines(frames[-half:])]
    else:
        lines = _lines(frames)
    return "\n".join([*lines, exception_line(error)])


def _lines(frames: list[traceback.FrameSummary]) -> list[str]:
    return [
        f"  {frame.filename}:{frame.lineno} in {frame.name}" + (f": {frame.line[:160]}" if frame.line else "")
        for frame in frames
    ]


def exception_place(error: BaseException) -> str:
    """`` (file:line)`` of the user's innermost frame, or nothing where there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({error.filename}:{error.lineno})"
    places = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not _is_ours(frame)
    ]
    return f" ({places[-1][0]}:{places[-1][1]})" if places else ""


def _is_ours(frame: FrameType) -> bool:
    """Of regrow, whichever of its packages, or of the import itself: not where the user's mistake stands."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package in _PACKAGES or frame.f_code.co_filename.startswith("<frozen")
