"""``python -m sim_top.cli`` is ``antiphon``."""

import sys

from sim_top.cli import main

sys.exit(main())
