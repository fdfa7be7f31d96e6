"""The built wheel, in an empty environment beside PyPI's ``supervisor`` and a foreign ``workers`` folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    "regrow_signals": ROOT / "signals" / "regrow_signals",
    "regrow_workers": ROOT / "workers" / "regrow_workers",
    "regrow_supervisor": ROOT / "supervisor" / "regrow_supervisor",
    "regrow": ROOT / "regrow",
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

APPLICATION = """
from regrow import Agent, Payload, State, Step, Supervisor, handles

class Knocked(Payload, type="door.knocked"):
    who: str

class Door(State):
    knocks: int = 0

class Doorman(Agent[Door], name="doorman"):
    @handles(Knocked)
    def knocked(self, door: Door, knock: Knocked) -> Step[Door]:
        return door.evolve(knocks=door.knocks + 1)

tree = Supervisor("house", [Doorman.child("doorman")])
"""


def run(words: Sequence[object], cwd: Path) -> str:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "REDIS_URL")
    }
    done = subprocess.run(
        [str(word) for word in words], check=False, capture_output=True, text=True, cwd=cwd, env=environment
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, by the build tool of this environment, whose version is pinned."""
    source = tmp_path_factory.mktemp("source")
    for name in ("signals", "workers", "supervisor", "regrow", "examples"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    target = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", target, source], source)
    [built] = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the wheel and ``supervisor``, fetched as the scripts do it, in the pinned versions."""
    folder = tmp_path_factory.mktemp("empty") / "env"
    run([sys.executable, "-m", "venv", "--without-pip", folder], folder.parent)
    python = folder / "bin" / "python"
    words: list[object] = [
        "install",
        "--quiet",
        "--constraint",
        ROOT / "constraints.txt",
        wheel,
        "supervisor",
    ]
    if pip := pip_command():
        run([*pip, "--python", python, *words], folder)
    else:
        run(["uv", "pip", *words, "--python", python], folder)
    return folder


def pip_command() -> list[str] | None:
    """The pip of this environment, else one of the interpreters it was made from, as the scripts do it."""
    for python in (sys.executable, getattr(sys, "_base_executable", sys.executable), "python3"):
        probe = subprocess.run([python, "-m", "pip", "--version"], check=False, capture_output=True)
        if probe.returncode == 0:
            return [python, "-m", "pip"]
    return None


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's folder with names that are like ours."""
    for name in ("workers", "signals", "supervisor"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"MINE = {name!r}\n")
    (tmp_path / "house.py").write_text(APPLICATION)
    return tmp_path


def test_the_wheel_holds_every_module_script_and_marker(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    for package, folder in SOURCES.items():
        assert f"{package}/py.typed" in names
        for pattern in ("*.py", "*.lua"):
            for path in folder.rglob(pattern):
                assert f"{package}/{path.relative_to(folder).as_posix()}" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == set(SOURCES)


def test_it_lives_beside_the_other_supervisor_and_the_users_own_folders(
    environment: Path, home: Path
) -> None:
    script = (
        "import json, house, signals, workers, regrow, regrow_supervisor;"
        "print(json.dumps([workers.MINE, signals.MINE, regrow.__file__, regrow_supervisor.__file__]))"
    )

    mine, other, face, room = json.loads(run([environment / "bin" / "python", "-c", script], home))

    assert (mine, other) == ("workers", "signals")
    assert Path(face).is_relative_to(environment)
    assert Path(room).is_relative_to(environment)
    # PyPI's supervisor is there too, whole: its own program starts.
    assert run([environment / "bin" / "supervisord", "--version"], home.parent).strip()


def test_its_command_runs(environment: Path, home: Path) -> None:
    regrow = environment / "bin" / "regrow"

    assert "Redis" in run([regrow, "--help"], home)
    assert run([regrow, "--version"], home).strip()
    assert "regrow" in run([environment / "bin" / "python", "-m", "regrow", "--help"], home)


def test_its_pure_transition_runs(environment: Path, home: Path) -> None:
    script = "import house; state, _ = house.Doorman.cmd(house.Door(), house.Knocked(who='x')); print(state.knocks)"

    assert run([environment / "bin" / "python", "-c", script], home) == "1\n"


def test_its_embedded_server_takes_a_script_of_ours(environment: Path, home: Path) -> None:
    script = """
import pathlib, tempfile
from regrow import Client
from regrow.embedded_redis import EmbeddedRedis
from regrow.errors import NoSuchAgent
with tempfile.TemporaryDirectory() as folder, EmbeddedRedis(pathlib.Path(folder)) as server:
    with Client(server.info.url) as client:
        try:
            client.send("nobody", "door.knocked", {"who": "x"})
        except NoSuchAgent as error:
            print(error)
"""

    assert "nobody" in run([environment / "bin" / "python", "-c", script], home)


def test_its_demo_runs_to_its_verdict(environment: Path, home: Path) -> None:
    out = run([environment / "bin" / "regrow", "demo", "--state-dir", home / "state"], home)

    assert "nothing lost, nothing doubled, nothing out of order" in out
