"""An application whose import takes longer than any test; a file says that it has begun."""

import os
import time
from pathlib import Path

if marker := os.environ.get("REGROW_TEST_LOADING"):
    Path(marker).touch()
time.sleep(120)

tree = None
