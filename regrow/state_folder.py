"""The folder of an embedded server: private, locked, with a record of who runs in it. All files are of mode 0600."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import stat
import tempfile
from pathlib import Path
from typing import Any

from regrow_signals.errors import StoreError

__all__ = [
    "private_folder",
    "socket_path",
    "try_lock",
    "unlock",
    "kept_password",
    "kept_port",
    "read_record",
    "write_private",
    "shorten",
]

_LONGEST_SOCKET_PATH = 100  # the kernel's limit is 107 bytes, macOS's 103
_LOG_KEPT = 1 << 20


def try_lock(path: Path) -> int | None:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def unlock(lock: int) -> None:
    """For forks of this process too, which hold the same lock without knowing it."""
    fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


def private_folder(folder: Path) -> None:
    """Made with mode 0700; one that is there already is taken if nobody else can write to it and swap its files."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.stat()
    except OSError as error:
        raise StoreError(
            f"state folder {folder}: {error.strerror}; name another one (REGROW_STATE_DIR)"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise StoreError(
            f"state folder {folder} is not a folder of this user; name another one (REGROW_STATE_DIR)"
        )
    if found.st_mode & 0o022:
        raise StoreError(f"state folder {folder} can be written to by others: chmod 700 {folder}")


def socket_path(folder: Path) -> Path:
    """In the state folder; where that path is longer than a socket's may be, in a short private folder of its own."""
    path = folder / "redis.sock"
    if len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH:
        return path
    name = f"regrow-{os.getuid()}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}"
    for place in (Path(tempfile.gettempdir()), Path("/tmp")):
        path = place / name / "redis.sock"
        if len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH:
            private_folder(path.parent)
            return path
    raise StoreError(f"no place for a socket: {folder} is too long a path (REGROW_STATE_DIR)")


def kept_password(path: Path) -> str:
    """The same at every start, so that the line with redis-cli goes on working."""
    with contextlib.suppress(OSError):
        kept = path.read_text(encoding="ascii").strip()
        if len(kept) >= 32 and kept.isalnum():
            return kept
    made = secrets.token_hex(16)
    write_private(path, made)
    return made


def kept_port(folder: Path) -> int:
    try:
        kept = int((folder / "port").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
    return kept if 1024 <= kept <= 65535 else 0


def read_record(folder: Path) -> dict[str, Any]:
    """What the running server's launcher wrote down; empty if nothing readable is there."""
    try:
        record = json.loads((folder / "server.json").read_text(encoding="utf-8"))
        return dict(record)
    except (OSError, ValueError, TypeError):
        return {}


def write_private(path: Path, text: str) -> None:
    """Whole or not at all, readable by this user only."""
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mode 0600
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(draft).replace(path)


def shorten(log: Path) -> None:
    with contextlib.suppress(OSError):
        if log.stat().st_size > _LOG_KEPT:
            log.write_bytes(log.read_bytes()[-_LOG_KEPT // 4 :])
