"""Who is restarted, when, and by what rule: OTP's supervisors as one pure decision, and the shell that carries it out.

Pure here (no I/O, no clock): ``spec`` (what users write), ``definition`` (the stored form, JSON), ``states`` and
``codec`` (a supervisor's record and its hash fields), ``events`` (what goes into a decision), ``orders`` (what comes
out), ``decide``. Shells (``watchdog``) read one event, decide, commit. Imports go down only; import from the module.

The interface, for the shell::

    decide(states, event, now_ms) -> Decision      states: {path: SupervisorState}; values handed in are never changed
    decide_safely(states, event, now_ms)           same; a supervisor whose decision raises is crashed, alone
    Decision.states / .removed / .output           changed records; paths to delete; orders, replies, reports in order
    Decision.orders / .replies / .reports          the same, each kind by itself
    inbox.next_due(states) -> int | None           when to send Tick
    to_fields(state), from_fields(fields), changes(old, new) -> FieldChanges(set, delete)      (codec)
"""
