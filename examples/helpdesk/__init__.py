"""A support desk: tickets come in, ``support`` counts them, ``billing`` writes invoices into a ledger outside."""
