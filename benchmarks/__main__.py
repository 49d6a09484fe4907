"""``python benchmarks``: all of them, one after the other; the first that fails ends it."""

import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    for file in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        print("==", file.name, flush=True)
        if code := subprocess.run([sys.executable, file]).returncode:
            sys.exit(code)
