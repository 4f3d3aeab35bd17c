"""python -m fedaudit: nothing is imported from the working directory, which may be a stranger's."""

import os
import sys

# As -P would have it; these two modules were there before. Where -P was given, it is not in there.
if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]

from fedaudit.cli import main

if __name__ == "__main__":
    main()
