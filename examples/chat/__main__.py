"""``python -m examples.chat``: three chats, and SIGKILLs where it hurts: between a tool call and its answer.

While the restaurant has booked a table and not answered yet, the process that waits for the answer is killed, and so is
each that runs chats. Exit code 1 unless every question is answered once and every table is booked once.
"""

from __future__ import annotations

import argparse
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from examples.running import Finding, Killer, Running, conclude, running, serving, until
from regrow import Client

from .app import NEW_CHAT, Chat, Conversation, Said
from .provider import ADDRESS
from .stub import Provider

QUESTIONS = ("Hello!", "What is the weather in Kyoto, and a table in Kyoto please", "And a table in Lima")
CHATS = ("chat-ada", "chat-bob", "chat-cyd")


def run(*, chats: int = len(CHATS), seed: int = 1) -> list[Finding]:
    provider = Provider(seed)
    with (
        serving(provider.handler) as address,
        running("examples.chat.app:tree", environment={ADDRESS: address}) as system,
    ):
        names = CHATS[:chats]
        killer = Killer(system, seed)
        screen = Screen(system, names[0])
        with screen, ThreadPoolExecutor(len(names)) as people:
            talks = [people.submit(talk, system, name) for name in names]
            provider.booking.acquire()
            print(
                f"a table is booked, nobody has heard of it: killed {killer.kill_all('executor', 'worker')} processes"
            )
            answers = [talk.result() for talk in talks]
        until(system.is_idle, "nothing is under way")
        for answer in answers[0]:
            print(f"  {names[0]} hears: {answer}")
        print(f"  {names[0]} saw meanwhile: {screen.seen}")
        states = [system.client.state(name, Chat) for name in names]
        return [
            *judge(states, answers, provider.tables, screen.seen),
            Finding(not system.dead_letters(), "no dead letter"),
        ]


class Screen(threading.Thread):
    """What a chat window shows while the model is still speaking."""

    def __init__(self, system: Running, chat: str) -> None:
        super().__init__(name="screen")
        self._url, self._namespace = system.stack.url, system.client.keys.namespace
        self._chat = chat
        self._closed = threading.Event()
        self.seen: list[str] = []

    def run(self) -> None:
        with Client(self._url, namespace=self._namespace) as client:
            while not self._closed.is_set():
                for step in client.watch_progress(self._chat, timeout=1):
                    if isinstance(step.value, dict) and step.value["text"]:
                        self.seen.append(step.value["text"])

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self.join()


def talk(system: Running, chat: str) -> list[str]:
    """One question after the other; the first one makes the chat."""
    with Client(system.stack.url, namespace=system.client.keys.namespace) as client:
        return [client.ask(chat, Said(text=text), create=NEW_CHAT, timeout=60) for text in QUESTIONS]


def judge(
    states: list[Conversation], answers: list[list[str]], tables: dict[str, int], seen: list[str]
) -> list[Finding]:
    """Pure."""
    wanted = [
        "user",
        "assistant",
        *["user", "assistant", "tool", "tool", "assistant"],
        *["user", "assistant", "tool", "assistant"],
    ]
    final = [[m.text for m in state.messages if m.role == "assistant" and not m.calls] for state in states]
    return [
        Finding(
            all([message.role for message in state.messages] == wanted for state in states),
            f"{len(states)} conversations of {len(wanted)} messages, none lost and none twice",
        ),
        Finding(final == answers, "whoever asked heard the answer that is in the conversation"),
        Finding(
            bool(seen) and all(any(said.startswith(text) for said in final[0]) for text in seen),
            f"{len(seen)} glimpses of an answer while it streamed, each the beginning of what was said",
        ),
        Finding(
            tables == {"Kyoto": len(states), "Lima": len(states)},
            f"tables booked: {dict(tables)}, one for each wish",
        ),
    ]


def main() -> int:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    return conclude(run())


if __name__ == "__main__":
    sys.exit(main())
