"""Ten thousand devices, each an agent: ``python -m examples.fleet``; ``--kill-every 1`` kills slots meanwhile."""
