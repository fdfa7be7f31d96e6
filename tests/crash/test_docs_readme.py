"""The README's agents, run by a whole system, answer the README's client."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regrow import Client
from regrow.errors import NoSuchAgent
from regrow.settings import load_settings
from regrow.up import Stack
from tests.conftest import PrivateServer, wait_until

pytestmark = pytest.mark.crash

ROOT = Path(__file__).resolve().parents[2]
SHOWN = '\n    print(client.state("support", Support).open, client.state("billing", Billing).due)\n'


def test_the_client_on_the_page_reaches_the_agents_on_the_page(
    own_server: PrivateServer, tmp_path: Path
) -> None:
    programs = re.findall(
        r"<!-- program: (\S+) -->\n```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S
    )
    for name, text in programs:
        (tmp_path / name).write_text(text)
    told = (tmp_path / "client.py").read_text().rstrip() + SHOWN
    told = told.replace("import Support,", "import Billing, Support,")
    room = [str(tmp_path), *(str(ROOT / each) for each in ("signals", "workers", "supervisor", "."))]
    environment = {"PYTHONPATH": os.pathsep.join(room), "REGROW_METRICS_PORT": "0"}
    settings = load_settings(redis_url=own_server.url, drain=2, shutdown=2)

    with Stack("helpdesk:tree", settings=settings, environment=environment, output=print):
        wait_until(lambda: applied(own_server.url), "billing applies a signal", 20)
        ran = subprocess.run(
            [sys.executable, "-c", told],
            cwd=tmp_path,
            env={**os.environ, **environment, "REDIS_URL": own_server.url},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    assert (ran.stderr, ran.stdout.partition(" ")[0]) == ("", "1")


def applied(url: str) -> bool:
    """Whether billing takes signals."""
    with Client(url) as client:
        try:
            receipt = client.send("billing", "invoice.due", {"subject": "first"}, id="first")
        except NoSuchAgent:
            return False
        return receipt.wait(1).state == "applied"
