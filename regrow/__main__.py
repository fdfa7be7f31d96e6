"""``python -m regrow`` is the ``regrow`` command."""

from __future__ import annotations

from regrow_workers.program_start import main

if __name__ == "__main__":
    main()
