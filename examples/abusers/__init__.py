"""Twenty good agents beside one of every kind of bad one: ``python -m examples.abusers`` runs them and tells."""
