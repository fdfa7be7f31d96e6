"""The program of docs/asking.md runs, and does what its test on the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.unit.docs_tables import DOCS

PROGRAM = re.compile(r"<!-- program: (\S+) -->\n```python\n(.*?)```", re.DOTALL)


def test_the_programs_of_the_page_run(tmp_path: Path) -> None:
    for name, text in PROGRAM.findall((DOCS / "asking.md").read_text()):
        (tmp_path / name).write_text(text)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "regrow.testing.pytest_plugin", "test_shop.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr
