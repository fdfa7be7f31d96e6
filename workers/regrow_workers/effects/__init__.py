"""Effects: registered functions that touch the world after a commit; defined here, executed by RQ under claim and settle."""
