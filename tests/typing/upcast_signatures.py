"""What the type checkers accept and refuse in ``@upcast`` steps. Checked, not run.

Each line that must be refused carries an ignore for exactly that error: an ignore that is not needed is an error too.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=error
# (unneeded ignores are what this file is there to find)
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_type

from regrow import State, upcast


class Accepted(State, schema=5):
    open: int = 0

    @upcast(1)
    @staticmethod
    def from_1(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "open": len(old["names"])}

    @upcast(2)
    @classmethod
    def from_2(cls, old: dict[str, Any]) -> dict[str, Any]:
        return cls(open=len(old)).model_dump()

    @staticmethod
    @upcast(3)
    def from_3(old: dict[str, Any]) -> dict[str, Any]:
        return old

    @upcast(4)
    @staticmethod
    def from_4(old: Mapping[str, Any]) -> Mapping[str, Any]:
        return old


class Refused(State, schema=5):
    @upcast("1")  # type: ignore[arg-type]
    @staticmethod
    def from_1(old: dict[str, Any]) -> dict[str, Any]:
        return old

    @upcast(2)  # type: ignore[type-var]
    @staticmethod
    def from_2(old: dict[str, Any]) -> int:
        return len(old)

    @upcast(3)  # type: ignore[type-var]
    @staticmethod
    def from_3(old: dict[str, Any], more: int) -> dict[str, Any]:
        return {**old, "more": more}

    @upcast(4)  # type: ignore[type-var]
    @staticmethod
    async def from_4(old: dict[str, Any]) -> dict[str, Any]:
        return old


def reading() -> None:
    assert_type(Accepted.from_stored({"names": ["a"]}, schema=1), Accepted)
    assert_type(Accepted.from_1({"names": []}), dict[str, Any])
