"""Every .lua file compiles: a Redis of its own is asked to load each. Prints what the server says of the others."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import redis

from regrow.embedded_redis import EmbeddedRedis

SCRIPTS = Path(__file__).resolve().parent.parent / "signals" / "regrow_signals" / "lua"


def main() -> int:
    faults = 0
    with tempfile.TemporaryDirectory(prefix="regrow-lua-") as folder, EmbeddedRedis(Path(folder)) as server:
        client = redis.Redis(unix_socket_path=server.info.socket, password=server.info.password)
        for path in sorted(SCRIPTS.glob("**/*.lua")):
            try:
                client.script_load(path.read_text(encoding="utf-8"))
            except redis.ResponseError as error:
                faults += 1
                sys.stdout.write(f"{path}: {error}\n")
        client.close()
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
