"""An order saga with compensation: reserve, charge, ship; release and refund when a later step fails."""
