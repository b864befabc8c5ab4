from typing import Final

KNOWN: Final = 128
PAIRS: Final = 864
