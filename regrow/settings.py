"""All settings, read from the environment once, at the door. No other module reads it.

Each setting is the variable REGROW_<NAME>; the server is REDIS_URL. Defaults of limits, nodes and watchdogs stand in
the dataclasses of the rooms that use them; this class takes them from there, checks them against each other, and hands
the dataclasses down.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AliasChoices, BeforeValidator, Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from regrow.quantities import bytes_of, seconds_of, show_bytes, show_seconds
from regrow_signals.errors import BadSetting
from regrow_signals.ids import check_namespace
from regrow_signals.limits import Limits
from regrow_signals.server_url import check_url
from regrow_supervisor.watchdog_settings import WatchdogSettings
from regrow_workers.settings import NodeSettings

__all__ = ["SettingRow", "Settings", "load_settings", "setting_rows", "settings_table"]

PREFIX: Final = "REGROW_"
_FOR_TESTS: Final = "REGROW_TEST_"  # read by the test suite, not by regrow

_LIMITS: Final = Limits()
_NODE: Final = NodeSettings()
_WATCHDOG: Final = WatchdogSettings()


def _labels_of(value: object) -> object:
    """``"zone=a,disk=ssd"`` as a mapping."""
    if not isinstance(value, str):
        return value
    pairs = [part.partition("=") for part in value.split(",") if part.strip()]
    if any(not name.strip() or not mark for name, mark, _ in pairs):
        raise ValueError("give labels as 'zone=a,disk=ssd'")
    return {name.strip(): label.strip() for name, _, label in pairs}


Seconds = Annotated[float, BeforeValidator(seconds_of)]
Bytes = Annotated[int, BeforeValidator(bytes_of)]
Count = Annotated[int, Field(ge=1)]
Labels = Annotated[Mapping[str, str], NoDecode, BeforeValidator(_labels_of)]


def _state_home() -> Path:
    """Where the XDG rules put the state of programs; relative values are ignored, as they say."""
    configured = Path(os.environ.get("XDG_STATE_HOME", ""))
    home = configured if configured.is_absolute() else Path.home() / ".local" / "state"
    return home / "regrow"


class Settings(BaseSettings):
    """What a regrow process is told. Frozen; ``load_settings`` makes one and checks it whole."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,  # a URL may hold a password
        populate_by_name=True,
        arbitrary_types_allowed=True,
    )

    redis_url: str = Field(
        "",
        validation_alias=AliasChoices("redis_url", "REDIS_URL"),
        repr=False,
        description="The Redis server.",
    )
    rq_url: str = Field("", repr=False, description="Where RQ's own keys live; empty: on the same server.")
    namespace: str = Field("regrow", description="Hash tag of all keys; one self-contained system.")
    state_dir: Path = Field(
        default_factory=_state_home,
        description="Where the embedded server keeps its data, a folder a namespace.",
    )
    redis_server: str = Field(
        "", description="Program of the embedded server; empty: one on PATH, else the wheel's."
    )

    heartbeat: Seconds = Field(
        _NODE.heartbeat, description="Longest time between two beats of a node (it beats twice as often)."
    )
    node_timeout: Seconds = Field(
        _NODE.node_timeout,
        description="A node that has not beaten for so long is lost. More than two heartbeats.",
    )
    lease: Seconds = Field(
        _WATCHDOG.lease, description="The leading watchdog's lease: a silent leader leads at most so long."
    )
    start_timeout: Seconds = Field(
        _NODE.start_timeout, description="From a start order to the worker's claim."
    )
    deadline: Seconds = Field(
        _NODE.deadline, description="Longest transition; a type or a child spec may say another."
    )
    shutdown: Seconds = Field(
        _NODE.shutdown, description="From the request to stop to the kill; a child spec may say another."
    )
    lower_after: Seconds = Field(
        _NODE.lower_after,
        description="Time in one transition after which a worker's priority is lowered; 0: never.",
    )
    drain: Seconds = Field(_NODE.drain, description="For a node to hand its agents back at SIGTERM.")
    batch: Count = Field(_NODE.read_count, description="Most signals taken from a mailbox at once.")
    check_every: Count = Field(
        _NODE.check_every,
        description="Every how many transitions a handler is watched for changes to its input; `regrow up`: 1.",
    )
    guard: Literal["enforce", "warn", "off"] = Field(
        _NODE.guard,
        description="What an impure handler (clocks, chance, I/O) meets; `regrow up`: enforce. "
        "A type or a child spec may say another.",
    )
    max_memory: Bytes = Field(
        _NODE.max_memory,
        description="Most private memory of an agent's worker; a type or a child spec may say another.",
    )
    max_processes: Annotated[int, Field(ge=0)] = Field(
        _NODE.max_processes,
        description="Most processes that an agent's worker may start; a type or a child spec may say another.",
    )
    max_workers: Count = Field(_NODE.max_workers, description="Most worker processes of a node.")
    spares: int = Field(
        _NODE.spares,
        ge=0,
        description="Processes that a node keeps ready for the next start, beside its workers; 0: none.",
    )
    pool_slots: int = Field(
        0, ge=0, description="Slot processes of a node, for pooled agents; empty: one for each processor."
    )
    pool_extra_slots: int = Field(
        _NODE.pool_extra_slots,
        ge=0,
        description="Most slots beyond that, while others are stuck in long transitions.",
    )
    pool_claims: Count = Field(
        _NODE.pool_claims, description="Most pooled agents that a slot has in hand at once."
    )
    labels: Labels = Field(
        default_factory=lambda: dict(_NODE.labels), description="Labels of this node, e.g. zone=a,disk=ssd."
    )

    max_state: Bytes = Field(
        _LIMITS.max_state_bytes,
        description="Largest state of an agent, as JSON; a type or a child spec may say another.",
    )
    max_signal: Bytes = Field(_LIMITS.max_signal_bytes, description="Largest signal.")
    max_json_depth: Count = Field(_LIMITS.max_json_depth, description="Deepest nesting of JSON.")
    max_mailbox: Count = Field(
        _LIMITS.max_mailbox,
        description="Most signals that wait in a mailbox; a type or a child spec may say another.",
    )
    max_dead: Count = Field(_LIMITS.max_dead, description="Most dead letters of an agent.")
    max_outbox: Count = Field(_LIMITS.max_outbox, description="Most effects and held emits of an agent.")
    max_timers: Count = Field(_LIMITS.max_timers, description="Most timers that an agent has set itself.")
    max_directives: Count = Field(_LIMITS.max_directives, description="Most directives of a transition.")
    max_commit: Bytes = Field(_LIMITS.commit_bytes, description="Largest commit.")
    max_commit_appends: Count = Field(_LIMITS.commit_appends, description="Most entries a commit appends.")
    journal_entries: Count = Field(_LIMITS.journal_entries, description="Transitions kept in a journal.")
    journal_size: Bytes = Field(_LIMITS.journal_bytes, description="Largest journal of an agent.")
    pool_journal_entries: Count = Field(
        _LIMITS.pool_journal_entries, description="Transitions kept in a pooled agent's journal."
    )
    pool_journal_size: Bytes = Field(
        _LIMITS.pool_journal_bytes, description="Largest journal of a pooled agent."
    )
    max_events: Count = Field(_LIMITS.max_events, description="Events kept.")
    max_hops: Count = Field(_LIMITS.max_hops, description="Signals caused by a signal, in a row.")
    max_subscribers: Count = Field(
        _LIMITS.max_subscribers, description="Most agents that one publish reaches."
    )
    max_patterns: Count = Field(
        _LIMITS.max_patterns,
        description="Most subscriptions of an agent; and most patterns with wildcards of all agents.",
    )
    dedupe_window: Seconds = Field(
        _LIMITS.dedupe_window_ms / 1000, description="How long ids are remembered."
    )
    dedupe_ids: Count = Field(_LIMITS.dedupe_ids, description="Most ids remembered for an agent.")
    held_timeout: Seconds = Field(_LIMITS.held_timeout_ms / 1000, description="How long an emit is held.")
    max_attempts: Count = Field(
        _LIMITS.max_attempts,
        description="Tries of a signal whose process dies in it; a type or a child spec may say another.",
    )
    max_kills: Count = Field(
        _LIMITS.max_kills,
        description="Tries where the death may not be the signal's fault; a type or a child spec may say another.",
    )

    metrics_host: str = Field("127.0.0.1", description="Where `regrow metrics` listens.")
    metrics_port: int = Field(9464, ge=0, le=65535, description="Its port; 0: any free one.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Least level of a log line."
    )
    log_format: Literal["text", "json"] = Field(_NODE.log_format, description="Form of log lines.")

    @field_validator("redis_url", "rq_url")
    @classmethod
    def _usable_url(cls, url: str) -> str:
        if url:
            check_url(url)
        return url

    @field_validator("namespace")
    @classmethod
    def _usable_namespace(cls, namespace: str) -> str:
        return check_namespace(namespace)

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, level: object) -> object:
        return level.upper() if isinstance(level, str) else level

    @property
    def state_folder(self) -> Path:
        """The embedded server's folder for this namespace."""
        return self.state_dir.expanduser().absolute() / self.namespace

    @property
    def limits(self) -> Limits:
        return Limits(
            max_state_bytes=self.max_state,
            max_signal_bytes=self.max_signal,
            max_json_depth=self.max_json_depth,
            max_mailbox=self.max_mailbox,
            max_dead=self.max_dead,
            max_outbox=self.max_outbox,
            max_timers=self.max_timers,
            max_directives=self.max_directives,
            commit_bytes=self.max_commit,
            commit_appends=self.max_commit_appends,
            journal_entries=self.journal_entries,
            journal_bytes=self.journal_size,
            pool_journal_entries=self.pool_journal_entries,
            pool_journal_bytes=self.pool_journal_size,
            max_events=self.max_events,
            max_hops=self.max_hops,
            max_subscribers=self.max_subscribers,
            max_patterns=self.max_patterns,
            dedupe_window_ms=round(self.dedupe_window * 1000),
            dedupe_ids=self.dedupe_ids,
            held_timeout_ms=round(self.held_timeout * 1000),
            max_attempts=self.max_attempts,
            max_kills=self.max_kills,
        )

    @property
    def node(self) -> NodeSettings:
        return NodeSettings(
            heartbeat=self.heartbeat,
            node_timeout=self.node_timeout,
            start_timeout=self.start_timeout,
            lower_after=self.lower_after,
            drain=self.drain,
            deadline=self.deadline,
            shutdown=self.shutdown,
            read_count=self.batch,
            check_every=self.check_every,
            guard=self.guard,
            max_memory=self.max_memory,
            max_processes=self.max_processes,
            max_workers=self.max_workers,
            spares=self.spares,
            pool_slots=self.pool_slots or _NODE.pool_slots,
            pool_extra_slots=self.pool_extra_slots,
            pool_claims=self.pool_claims,
            labels=dict(self.labels),
            log_format=self.log_format,
            log_level=self.log_level,
        )

    @property
    def watchdog(self) -> WatchdogSettings:
        return WatchdogSettings(
            lease=self.lease, node_timeout=self.node_timeout, start_timeout=self.start_timeout
        )


def load_settings(**given: Any) -> Settings:
    """Settings of this process: what is given (None counts as not given), else the environment, else the defaults.

    Raises BadSetting: one line that names each variable at fault and what to do about it.
    """
    _refuse_unknown(os.environ)
    try:
        settings = Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise BadSetting("; ".join(_explain(error))) from None
    faults = list(_contradictions(settings))
    if faults:
        raise BadSetting("; ".join(faults))
    return settings


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return "REDIS_URL" if name == "redis_url" else PREFIX + name.upper()


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    known = [variable_of(name) for name in Settings.model_fields]
    for name in sorted(environ):
        if name.startswith(PREFIX) and not name.startswith(_FOR_TESTS) and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = (
                f"did you mean {near[0]}?" if near else "unset it, or see `regrow doctor` for those there are"
            )
            raise BadSetting(f"{name}: no such setting; {hint}")


def _explain(error: ValidationError) -> Iterator[str]:
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        name = str(fault["loc"][0]) if fault["loc"] else "settings"
        text = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            near = difflib.get_close_matches(name, Settings.model_fields, n=1)
            text = f"no such setting{f'; did you mean {near[0]}?' if near else ''}"
        yield f"{variable_of(name) if name in Settings.model_fields else name}: {text}"


def _contradictions(settings: Settings) -> Iterator[str]:
    """Settings that are fine alone and cannot work together; each line ends with what to do."""
    for name in (
        "heartbeat",
        "node_timeout",
        "lease",
        "start_timeout",
        "deadline",
        "dedupe_window",
        "held_timeout",
    ):
        if getattr(settings, name) < 0.05:
            yield f"{variable_of(name)}: must be at least 50ms"
    if settings.node_timeout <= 2 * settings.heartbeat:
        yield (
            f"REGROW_NODE_TIMEOUT={settings.node_timeout:g}: one late beat would declare a living node lost; "
            f"set it to more than twice REGROW_HEARTBEAT ({settings.heartbeat:g} s)"
        )
    if settings.lease < 2 * settings.heartbeat:
        yield (
            f"REGROW_LEASE={settings.lease:g}: a leader that waits for one slow answer would lose it; "
            f"set it to at least twice REGROW_HEARTBEAT ({settings.heartbeat:g} s)"
        )
    if settings.start_timeout < settings.heartbeat:
        yield (
            f"REGROW_START_TIMEOUT={settings.start_timeout:g}: no start could be in time; "
            f"set it to at least REGROW_HEARTBEAT ({settings.heartbeat:g} s)"
        )
    if settings.max_signal > settings.max_commit:
        yield (
            f"REGROW_MAX_SIGNAL={settings.max_signal}: could never be emitted; "
            f"set it to at most REGROW_MAX_COMMIT ({settings.max_commit})"
        )
    if settings.max_directives > settings.max_commit_appends:
        yield (
            f"REGROW_MAX_DIRECTIVES={settings.max_directives}: so many would never fit a commit; "
            f"set it to at most REGROW_MAX_COMMIT_APPENDS ({settings.max_commit_appends})"
        )


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting, for people: variable, default as it would be written, meaning."""

    variable: str
    default: str
    meaning: str


def setting_rows() -> tuple[SettingRow, ...]:
    """Every setting in the order of the class."""
    rows: list[SettingRow] = []
    for name, field in Settings.model_fields.items():
        default: Any = field.get_default() if field.default_factory is None else None
        validators = [mark.func for mark in field.metadata if isinstance(mark, BeforeValidator)]
        if name == "state_dir":
            shown = "~/.local/state/regrow"
        elif seconds_of in validators:
            shown = show_seconds(default)
        elif bytes_of in validators:
            shown = show_bytes(default)
        else:
            shown = str(default) if default else ""
        rows.append(SettingRow(variable_of(name), shown, field.description or ""))
    return tuple(rows)


def settings_table() -> str:
    """The settings as a table in Markdown; ``docs`` holds a copy that a test compares."""
    lines = ["| variable | default | meaning |", "| --- | --- | --- |"]
    lines += [
        f"| `{row.variable}` | {f'`{row.default}`' if row.default else ''} | {row.meaning} |"
        for row in setting_rows()
    ]
    return "\n".join(lines) + "\n"
