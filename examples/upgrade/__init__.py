"""Two versions of one application, to be run at the same time: see docs/upgrades.md."""
