"""``python -m nodewright_local.kubelets``."""

import sys

from nodewright_local.kubelets.main import main

if __name__ == "__main__":
    sys.exit(main())
