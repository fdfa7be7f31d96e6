"""An application whose import takes longer than any test."""

import time

time.sleep(120)

tree = None
