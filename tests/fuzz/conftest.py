"""Valid reports and federations come from the tests of what writes them."""

import sys
from pathlib import Path

for room in ("report", "attribution"):
    sys.path.insert(0, str(Path(__file__).parents[1] / room))
