"""Logs: one structured line for each event of a life, through the standard ``logging``.

``event(logger, "worker_exited", agent="support", incarnation=3, reason="signal:SIGKILL")`` is
``2026-05-01T10:00:00.123Z INFO worker_exited agent=support incarnation=3 reason=signal:SIGKILL`` as text, one object
as JSON. Passwords in URLs, and values of fields that are named like a secret, are masked in both.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Mapping
from typing import Literal, TextIO, cast

__all__ = ["configure", "event", "mask", "masked_fields"]

_PASSWORD_IN_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<user>[^/\s:@]*):[^/\s]*@", re.IGNORECASE)
_SECRET_NAME = re.compile(r"passw|secret|token|credential|api_?key|authorization", re.IGNORECASE)
_PLAIN = re.compile(r"[^\s\"=]+")
_FIELDS = "regrow_fields"


def configure(
    style: Literal["text", "json"] = "text", level: str = "INFO", stream: TextIO | None = None
) -> None:
    """Log to ``stream`` (stderr). Called once, at the door of a process; libraries never call it."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JSONLines() if style == "json" else _TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def event(logger: logging.Logger, name: str, *, level: int = logging.INFO, **fields: object) -> None:
    """One event of a life; fields without a value are left out."""
    if logger.isEnabledFor(level):
        kept = {key: value for key, value in fields.items() if value is not None and value != ""}
        logger.log(level, name, extra={_FIELDS: kept})


def mask(text: str) -> str:
    """``text`` with the passwords of URLs replaced."""
    return _PASSWORD_IN_URL.sub(r"\g<scheme>\g<user>:***@", text) if "://" in text else text


def masked_fields(fields: Mapping[str, object]) -> dict[str, object]:
    """``fields`` with secret values replaced, by their names or by what they look like."""
    return {
        name: "***" if _SECRET_NAME.search(name) else mask(value) if isinstance(value, str) else value
        for name, value in fields.items()
    }


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    found = cast(Mapping[str, object], getattr(record, _FIELDS, {}))
    return masked_fields(found)


def _stamp(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_quoted(value)}" for name, value in _fields_of(record).items())
        line = f"{_stamp(record)} {record.levelname} {mask(record.getMessage())}{fields}"
        if record.exc_info:
            line += "\n" + mask(self.formatException(record.exc_info))
        return line


class _JSONLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": _stamp(record),
            "level": record.levelname,
            "event": mask(record.getMessage()),
            "logger": record.name,
            **_fields_of(record),
        }
        if record.exc_info:
            line["traceback"] = mask(self.formatException(record.exc_info))
        return json.dumps(line, default=str)


def _quoted(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
