"""The ledger as the application sees it: one POST that appends an entry, once per effect id.

Its address is in the environment variable ``HELPDESK_LEDGER_URL``, set by whoever starts the ledger
(``python -m examples.helpdesk.ledger_stub``).
"""

from __future__ import annotations

import http.client
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

__all__ = ["ADDRESS_VARIABLE", "Entry", "LedgerError", "append", "read_ledger"]

ADDRESS_VARIABLE: Final = "HELPDESK_LEDGER_URL"
TIMEOUT_SECONDS: Final = 0.25
"""Short, since the demo is to be over in seconds; the ledger answers within a millisecond when it answers."""


class LedgerError(Exception):
    """The ledger did not take the entry, or did not say whether it did. Trying again is safe."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger; ``effect`` is its idempotency key."""

    effect: str
    ticket: str
    customer: str
    amount: int
    currency: str


def append(entry: Entry, *, address: str | None = None, timeout: float = TIMEOUT_SECONDS) -> bool:
    """Append ``entry``; True if an earlier try had done so. ``LedgerError`` if there was no clear answer."""
    where = address or os.environ.get(ADDRESS_VARIABLE, "")
    parts = urlsplit(where)
    if parts.scheme != "http" or parts.hostname is None:
        raise LedgerError(
            f"{ADDRESS_VARIABLE}={where!r} is no http address; start python -m examples.helpdesk.ledger_stub "
            "and set the variable to what it prints"
        )
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
    try:
        body = json.dumps(asdict(entry), ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": entry.effect}
        connection.request("POST", "/entries", body, headers)
        response = connection.getresponse()
        text = response.read(10_000).decode("utf-8", "replace")
    except TimeoutError as error:
        raise LedgerError(f"the ledger did not answer within {timeout} s for {entry.customer}") from error
    except (OSError, http.client.HTTPException) as error:
        raise LedgerError(f"the ledger at {where} cannot be reached: {error}") from error
    finally:
        connection.close()
    if response.status not in {200, 201}:
        raise LedgerError(f"the ledger refused {entry.ticket}: {response.status} {text.strip()}")
    return response.status == 200


def read_ledger(path: Path) -> list[Entry]:
    """The entries of a ledger file, in the order they were written; none if there is no file yet."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Entry(**json.loads(line)) for line in lines]
