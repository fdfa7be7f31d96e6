"""docs/redis.md as tables: every key with its type, and for each kind of hash or entry its fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DOCUMENT", "FieldRow", "KeyRow", "Schema", "read_document"]

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "redis.md"

_CONDITION = re.compile(r"^### `(?P<key>[^`]+)`(?: with `(?P<field>\w+)=(?P<value>\w+)`)?$")


def _pattern(template: str) -> re.Pattern[str]:
    """A name with its ``<placeholders>``, as a pattern."""
    parts = re.split(r"(<[^>]+>)", template.replace("{ns}", "{regrow}"))
    return re.compile("".join(".+" if part.startswith("<") else re.escape(part) for part in parts))


@dataclass(frozen=True)
class KeyRow:
    """One row of a table of keys."""

    template: str
    type: str
    expires: str

    def matches(self, key: str) -> bool:
        return (
            _pattern(self.template.replace("rq:queue:regrow:<ns>", "rq:queue:regrow:regrow")).fullmatch(key)
            is not None
        )


@dataclass(frozen=True)
class FieldRow:
    """One row of a table of fields."""

    template: str
    when: str

    @property
    def always(self) -> bool:
        return self.when == "always"

    def matches(self, field: str) -> bool:
        return _pattern(self.template).fullmatch(field) is not None


@dataclass(frozen=True)
class Schema:
    """The fields of a key, or of those entries of a stream in which ``field`` is ``value``."""

    key: str
    field: str
    value: str
    rows: tuple[FieldRow, ...]

    @property
    def name(self) -> str:
        """As its heading says it."""
        return f"{self.key} with {self.field}={self.value}" if self.field else self.key

    def applies(self, key: str, entry: Mapping[str, str]) -> bool:
        return _pattern(self.key).fullmatch(key) is not None and entry.get(self.field, "") == self.value

    def row_of(self, field: str) -> FieldRow | None:
        """The row that describes a field: the one that names it, else a pattern."""
        named = [row for row in self.rows if row.template == field]
        return next(iter(named + [row for row in self.rows if row.matches(field)]), None)


def read_document(text: str) -> tuple[Sequence[KeyRow], Sequence[Schema]]:
    """Every row of the document. A table of fields belongs to the ``###`` heading above it."""
    keys: list[KeyRow] = []
    schemas: list[Schema] = []
    section, heading = "", None
    for line in text.splitlines():
        if line.startswith("## "):
            section, heading = line[3:], None
        elif line.startswith("### "):
            heading = _CONDITION.match(line)
            assert heading is not None, f"cannot be read: {line}"
            schemas.append(Schema(heading["key"], heading["field"] or "", heading["value"] or "", ()))
        elif line.startswith("| `"):
            cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            name = cells[0].strip("`")
            if heading is not None:
                last = schemas.pop()
                row = FieldRow(name, cells[1])
                schemas.append(Schema(last.key, last.field, last.value, (*last.rows, row)))
            elif section in {"Keys", "RQ's keys"}:
                keys.append(KeyRow(name, cells[1], cells[2]))
    return keys, schemas
