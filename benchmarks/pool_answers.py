"""How soon pooled agents answer while slots are busy, and when one is killed: ``python -m benchmarks.pool_answers``.

1. As many slow agents as there are slots are each in a transition of four seconds; a fast one gets a signal: from
   before ``send`` to its commit. 2. A slot that holds 31 agents is killed (SIGKILL) in the first one's transition: from
   the kill to the last of the other thirty being committed. Both are to be within 200 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from functools import partial
from typing import Any

from benchmarks.pool_answers_app import AGENTS, Quick, Slow
from regrow.bench.system import System, kill_worker, running_stack, summary, until
from regrow.settings import load_settings
from regrow.up import Stack
from regrow_signals import views
from regrow_signals.client import Message
from regrow_signals.errors import RegrowError

APPLICATION = "benchmarks.pool_answers_app:tree"
SLOTS = os.cpu_count() or 1
SLOW = 4.0
LONG, LOOK = 60.0, 0.001
HELD = 31


def measure(rounds: int) -> dict[str, Any]:
    """Milliseconds; every round checks that nothing was applied twice, and that one agent alone was restarted."""
    busy: list[float] = []
    killed: list[float] = []
    with running_stack(APPLICATION, services=("watchdog",)) as system:
        until(lambda: len(_all(system, "status", "idle")) == len(AGENTS), "all agents have begun", LONG)
        sent = 0
        for _ in range(rounds):
            sent += 1
            busy += _while_slow(system, sent)
            sent += 1
            killed.append(_after_a_kill(system, sent))
    return {
        "slots": SLOTS,
        "rounds": rounds,
        "busy": summary(busy),
        "killed": summary(killed),
    }


def _while_slow(system: System, total: int) -> list[float]:
    """Of each fast agent's signal, while all slots are in slow transitions."""
    slow, fast = AGENTS[:SLOTS], AGENTS[SLOTS:]
    settings = load_settings(redis_url=system.url, namespace=system.keys.namespace, redis_server="")
    with Stack(APPLICATION, settings=settings, services=("worker",)):
        _send(system, [Message(agent, Slow(seconds=SLOW)) for agent in slow])
        until(lambda: len(_all(system, "status", "running")) >= SLOTS, "the slow ones run", LONG)
        times: list[float] = []
        for agent in fast[:20]:
            began = time.perf_counter()
            _send(system, [Message(agent, Quick())])
            until(partial(_has_handled, system, agent, total), f"{agent} has answered", LONG, pause=LOOK)
            times.append((time.perf_counter() - began) * 1000)
        if any(_handled(system, agent) == total for agent in slow):
            times = []  # they were done before: nothing was measured
        _send(system, [Message(agent, Quick()) for agent in fast[20:]])
        until(lambda: all(_handled(system, agent) == total for agent in AGENTS), "all are done", LONG)
    return times


def _after_a_kill(system: System, total: int) -> float:
    """From the kill to the last of those that the slot held and had not begun."""
    first, others, rest = AGENTS[0], AGENTS[1:HELD], AGENTS[HELD:]
    before = {agent: _record(system, agent)["incarnation"] for agent in AGENTS}
    _send(system, [Message(first, Slow(seconds=0.2)), *[Message(agent, Quick()) for agent in others]])
    settings = load_settings(redis_url=system.url, namespace=system.keys.namespace, redis_server="")
    told = {"REGROW_POOL_SLOTS": "1", "REGROW_POOL_EXTRA_SLOTS": "0"}
    with Stack(APPLICATION, settings=settings, services=("worker",), environment=told):
        until(
            lambda: _record(system, first).get("status") == "running", "the slot holds all", LONG, pause=LOOK
        )
        slot = int(_record(system, first)["pid"])
        began = time.perf_counter()
        kill_worker(slot, signal.SIGKILL)
        until(
            lambda: all(_handled(system, agent) == total for agent in others),
            "thirty go on",
            LONG,
            pause=LOOK,
        )
        took = (time.perf_counter() - began) * 1000
        _send(system, [Message(agent, Quick()) for agent in rest])
        until(lambda: all(_handled(system, agent) == total for agent in AGENTS), "all are done", LONG)
    ended = [agent for agent in AGENTS if _record(system, agent)["incarnation"] != before[agent]]
    if ended != [first]:
        raise RegrowError(f"{first} was to be restarted and nobody else; it was {ended}")
    return took


def _send(system: System, messages: list[Message]) -> None:
    for result in system.client.send_many(messages):
        if isinstance(result, RegrowError):
            raise result


def _record(system: System, agent: str) -> dict[str, str]:
    return system.watcher.command(views.agent_record(system.keys, agent))


def _handled(system: System, agent: str) -> int:
    return int(_record(system, agent).get("handled") or 0)


def _has_handled(system: System, agent: str, total: int) -> bool:
    return _handled(system, agent) == total


def _all(system: System, field: str, value: str) -> list[str]:
    return [agent for agent in AGENTS if _record(system, agent).get(field) == value]


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=5)
    sys.stdout.write(json.dumps(measure(options.parse_args().rounds), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
