"""How late timers are while very many others are pending."""

from __future__ import annotations

import random
from typing import Any, Final

from regrow.bench.app import AGENT
from regrow.bench.system import BenchError, System, running_system, summary, until
from regrow.bench.timed import SetTimers
from regrow_signals.calls import Command

__all__ = ["measure_timers"]

APPLICATION: Final = "regrow.bench.timed:tree"

#: ``AT_ONCE`` timers a call, of agents that nobody has registered, due in days: as a commit writes them
_FILL: Final = """
local now, first = redis.call('TIME')[1] * 1000, tonumber(ARGV[2])
for i = first, first + ARGV[3] - 1 do
  local agent = 'pending-' .. i % 1000
  local id = agent .. '#@' .. i
  local due = string.format('%.0f', now + 86400000 + i * 1000)
  redis.call('HSET', ARGV[1] .. 'timer:' .. id, 'agent', agent, 'birth', 'none', 'due_ms', due, 'set_ms', now,
    'type', 'bench.tick', 'data', 'null', 'set', i, 'to', agent, 'kind', 'once')
  redis.call('ZADD', ARGV[1] .. 'timers', due, id)
  redis.call('SADD', ARGV[1] .. 'timers-of:' .. agent, id)
end
return redis.call('ZCARD', ARGV[1] .. 'timers')
"""
AT_ONCE: Final = 2_000


def measure_timers(pending: int = 1_000_000, *, fired: int = 1000, seconds: float = 20.0) -> dict[str, Any]:
    """How late are ``fired`` timers, spread over ``seconds``, with so many others pending? By Redis's clock alone."""
    delays = [random.uniform(1.0, 1.0 + seconds) for _ in range(fired)]
    with running_system(application=APPLICATION) as system:
        before = _used_memory(system)
        found = _fill(system, pending)
        used = _used_memory(system) - before
        until(lambda: _is_quiet(system), "Redis has written its file anew", 300.0, pause=0.5)
        after = system.last_commit()
        system.client.send(AGENT, SetTimers(after=tuple(delays)))
        late = _lateness(system, after, fired)
    return {
        "what": "due time of a timer until its signal is in the mailbox",
        "pending": found,
        "fired": fired,
        "bytes_a_timer": round(used / max(1, found)),
        **summary(late),
    }


def _fill(system: System, pending: int) -> int:
    found = 0
    for first in range(0, pending, AT_ONCE):
        count = min(AT_ONCE, pending - first)
        words = ("EVAL", _FILL, 0, f"{system.keys.tag}:", first, count)
        found = system.watcher.command(Command(words, int, repeatable=False))
    return found


def _lateness(system: System, after: str, count: int) -> list[float]:
    """From the journal: when each signal was accepted, less the due time that ends its id."""
    late: list[float] = []
    while len(late) < count:
        entries = system.watcher.read_stream(system.keys.journal(AGENT), after, count=1000, block_ms=10_000)
        if not entries:
            raise BenchError(f"{len(late)} of {count} timers have fired, and no more for ten seconds")
        for entry, fields in entries:
            after = entry
            if fields["type"] == "bench.tick":
                late.append(float(int(fields["at_ms"]) - int(str(fields["signal"]).rpartition(":")[2])))
    return late


def _used_memory(system: System) -> int:
    return int(_info(system, "memory")["used_memory"])


def _is_quiet(system: System) -> bool:
    """The append-only file is not being written anew, which growing a hundredfold in a minute made Redis do."""
    found = _info(system, "persistence")
    return found["aof_rewrite_in_progress"] == found["aof_rewrite_scheduled"] == "0"


def _info(system: System, section: str) -> dict[str, str]:
    def parse(reply: Any) -> dict[str, str]:
        return dict(line.split(":", 1) for line in str(reply).splitlines() if ":" in line)

    return system.watcher.command(Command(("INFO", section), parse))
