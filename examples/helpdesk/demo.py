"""``regrow demo``: the helpdesk at work while its processes are killed, and a verdict from Redis and the ledger.

It starts everything on an embedded Redis, feeds every line of ``tickets.jsonl``, kills ``support`` five times with
SIGKILL, sends one poison ticket, waits until nothing is under way, and judges. Exit code 1 if anything is missing,
doubled or out of order.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, cast

import click

from regrow import Client, Status
from regrow.errors import IdConflict, NotStrictJSON, RegrowError
from regrow.settings import Settings, load_settings
from regrow.up import Stack
from regrow_signals import strict_json

from .app import Billing, Support
from .deaths import Deaths
from .ledger import ADDRESS_VARIABLE, read_ledger
from .tickets import Fate, Line, expected, poison_ticket, read_lines
from .verdict import Evidence, judge

__all__ = ["DemoFailed", "run_demo"]

PACKAGE = __package__ or "examples.helpdesk"
APPLICATION = f"{PACKAGE}.app:tree"
POISON = "poison"

START_SECONDS = 30.0
SETTLE_SECONDS = 25.0

#: after which share of the feed what happens to `support`
PLAN: tuple[tuple[float, str], ...] = (
    (0.10, "idle"),
    (0.25, "busy"),
    (0.40, "between a commit and its effects"),
    (0.60, POISON),
    (0.75, "busy"),
    (0.90, "just back"),
)


class DemoFailed(RegrowError):
    """Something that must come true did not; the message names it."""


def run_demo(settings: Settings, *, keep: bool = False, state_dir: Path | None = None) -> int:
    """Run it; 0 if nothing was lost, 1 otherwise. Leaves no process and, without ``state_dir``, no file behind."""
    with ExitStack() as cleanup:
        folder = state_dir or Path(tempfile.mkdtemp(prefix="regrow-demo-"))
        if state_dir is None:
            cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        ledger = folder / "ledger.jsonl"
        ledger.unlink(missing_ok=True)
        namespace = f"demo-{int(time.time())}"
        own = load_settings(state_dir=folder, namespace=namespace, redis_url=settings.redis_url or None)
        address = cleanup.enter_context(ledger_stub(ledger))
        log = cleanup.enter_context((folder / "demo.log").open("w", encoding="utf-8"))
        services = ("watchdog", "worker", "effects", "metrics") if keep else ("watchdog", "worker", "effects")
        stack = cleanup.enter_context(
            Stack(
                APPLICATION,
                settings=own,
                output=lambda name, line: print(name, "|", line, file=log, flush=True),
                services=services,
                environment={ADDRESS_VARIABLE: address},
            )
        )
        client = cleanup.enter_context(Client(stack.url, namespace=namespace, limits=own.limits))
        try:
            code = Demo(client, ledger).run()
        except RegrowError as error:
            click.echo(f"\nFAILED: {error}\nthe log's last lines:\n{tail(folder / 'demo.log')}", err=True)
            code = 1
        if keep:
            stay(stack, own)
        return code


class Demo:
    """One run: feed, kill, wait, judge."""

    def __init__(self, client: Client, ledger: Path) -> None:
        self.client = client
        self.ledger = ledger
        self.lines = read_lines()
        self.deaths = Deaths(client, "support")
        self.refused: dict[Fate, int] = dict.fromkeys(Fate, 0)

    def run(self) -> int:
        """The whole run; the exit code."""
        click.echo("support and billing run under one supervisor: one_for_one, at most 20 restarts in 10 s")
        click.echo(
            "(OTP's and our default, 3 in 5 s, would give up here: we kill support on purpose, within seconds)"
        )
        self.wait_running()
        began = time.monotonic()
        self.feed()
        click.echo("waiting until nothing is under way ...")
        self.settle()
        click.echo(f"all settled {time.monotonic() - began:.1f} s after the first ticket\n")
        self.deaths.report(click.echo)
        return self.verdict()

    def wait_running(self) -> None:
        """Until both agents run."""
        until(
            lambda: self.deaths.runs("support") and self.deaths.runs("billing"),
            "both agents run",
            START_SECONDS,
        )

    def feed(self) -> None:
        """Every line in order; at its share of the feed, what the plan says."""
        plan = [(int(share * len(self.lines)), what) for share, what in PLAN]
        with click.progressbar(length=len(self.lines), label=f"feeding {len(self.lines)} tickets") as bar:
            place = 0
            while place < len(self.lines):
                if plan and place >= plan[0][0]:
                    place += self.happen(plan.pop(0)[1], place, bar.update)
                    continue
                self.send(self.lines[place])
                place += 1
                bar.update(1)

    def happen(self, what: str, place: int, fed: Callable[[int], None]) -> int:
        """One death; how many lines were fed for it."""
        if what == POISON:
            self.poison()
            return 0
        if what == "busy":
            return self.kill_busy(place, fed)
        if what.startswith("between"):
            return self.kill_between(place, fed)
        if what == "idle":
            until(self.deaths.is_idle, "support has nothing to do", SETTLE_SECONDS)
        self.deaths.kill(what)
        if what == "just back":
            return 0
        self.deaths.wait_back()
        return 0

    def kill_busy(self, place: int, fed: Callable[[int], None]) -> int:
        """Hold its process while tickets pile up, let it go, and kill it in the middle of them."""
        burst = self.lines[place : place + 30]

        def feed() -> None:
            for line in burst:
                self.send(line)
                fed(1)

        self.deaths.kill("busy", feed)
        self.deaths.wait_back()
        return len(burst)

    def kill_between(self, place: int, fed: Callable[[int], None]) -> int:
        """Right after a commit that ordered an invoice, before the invoice is in the ledger."""
        count = 0
        for line in self.lines[place:]:
            receipt = self.send(line)
            count += 1
            fed(1)
            if receipt is None or line.ticket is None or line.ticket.amount is None:
                continue
            if receipt().state == "applied" and not self.in_ledger(line.ticket.ticket):
                self.deaths.kill("between a commit and its effects")
                self.deaths.wait_back()
                return count
        raise DemoFailed("no ticket with an invoice was left to be killed after")

    def poison(self) -> None:
        """A ticket that kills whoever reads it: twice, then it is a dead letter."""
        until(self.deaths.is_idle, "support has nothing to do", SETTLE_SECONDS)
        before = self.deaths.count()
        ticket = poison_ticket()
        status = self.client.send("support", ticket, id=ticket.ticket).wait(timeout=SETTLE_SECONDS)
        if status.state != "dead":
            raise DemoFailed(f"the poison ticket should be dead, and is {status.state}")
        self.deaths.wait_back()
        self.deaths.note_poison(ticket.ticket, self.deaths.count() - before, status.reason)

    def send(self, line: Line) -> Callable[[], Status] | None:
        """Feed one line; None where it was refused at the door."""
        try:
            data = object_of(line.text)
            receipt = self.client.send("support", "ticket.opened", data, id=line.signal_id)
        except NotStrictJSON:
            self.refused[Fate.REFUSED] += 1
            return None
        except IdConflict:
            self.refused[Fate.CONFLICT] += 1
            return None
        if receipt.duplicate:
            self.refused[Fate.DUPLICATE] += 1
            return None
        return lambda: receipt.wait(timeout=SETTLE_SECONDS)

    def in_ledger(self, ticket: str) -> bool:
        """Is the ticket's invoice written?"""
        return any(entry.ticket == ticket for entry in read_ledger(self.ledger))

    def settle(self) -> None:
        """Until mailboxes and effects are empty and billing has heard of every invoice."""
        until(self.deaths.is_idle, "support has applied everything", SETTLE_SECONDS)
        until(
            lambda: self.deaths.is_idle("billing") and not self.client.state("billing", Billing).under_way,
            "every invoice is settled",
            SETTLE_SECONDS,
        )

    def verdict(self) -> int:
        """Compare Redis and the ledger with what the file alone says must be there."""
        letters = self.client.dead_letters("support", count=1000)
        evidence = Evidence(
            desk=self.client.state("support", Support),
            invoices=self.client.state("billing", Billing),
            dead={letter.get("id", "?"): letter.get("reason", "?") for _, letter in letters},
            ledger=read_ledger(self.ledger),
            billing_incarnation=int(self.deaths.record("billing")["incarnation"]),
            support_incarnation=int(self.deaths.record("support")["incarnation"]),
            deaths=self.deaths.count(),
            refused=self.refused,
        )
        findings = judge(evidence, expected(self.lines), self.lines, poison_ticket().ticket)
        click.echo("verdict, from Redis and the ledger:")
        for finding in findings:
            click.echo(f"  {'ok ' if finding.holds else 'NOT'}  {finding.text}")
        lost = [finding for finding in findings if not finding.holds]
        if lost:
            click.echo(f"\n{len(lost)} findings do not hold")
            return 1
        click.echo("\nnothing lost, nothing doubled, nothing out of order")
        return 0


@contextmanager
def ledger_stub(ledger: Path) -> Generator[str]:
    """The outside system: a process of its own; its address. It ends with us."""
    words = [
        sys.executable,
        "-m",
        f"{PACKAGE}.ledger_stub",
        "--ledger",
        str(ledger),
        "--port",
        "0",
        "--with-parent",
    ]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield address_of(process.stdout)
    finally:
        process.terminate()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def address_of(output: IO[str]) -> str:
    """What the stub prints first."""
    words = output.readline().split()
    found = next((word for word in words if word.startswith("http://")), "")
    if not found:
        raise DemoFailed("the ledger stub did not start")
    return found


def stay(stack: Stack, settings: Settings) -> None:
    """Leave it running until Ctrl-C, and say what to type next."""
    click.echo(
        f"""
It keeps running; Ctrl-C ends it. In another terminal:

  export REGROW_STATE_DIR={settings.state_dir} REGROW_NAMESPACE={settings.namespace}
  regrow tree
  regrow state support
  regrow dead list support
  regrow kill support && regrow events --count 5
  regrow redis HGETALL '{{{settings.namespace}}}:agent:support'
  curl -s http://{settings.metrics_host}:{settings.metrics_port}/metrics | grep regrow_restarts
"""
    )
    asked = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        asked.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    while not asked.is_set() and not stack.wait(0.2):
        pass


def until(condition: Callable[[], bool], what: str, seconds: float) -> None:
    """Poll every 5 ms; ``DemoFailed`` names what never came true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise DemoFailed(f"did not come true within {seconds:g} s: {what}")
        time.sleep(0.005)


def object_of(text: str) -> dict[str, object]:
    """The line as strict JSON; a ticket is an object."""
    data = strict_json.loads(text)
    if not isinstance(data, dict):
        raise NotStrictJSON("a ticket is a JSON object")
    return cast("dict[str, object]", data)


def tail(path: Path, lines: int = 15) -> str:
    """The end of a file."""
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
