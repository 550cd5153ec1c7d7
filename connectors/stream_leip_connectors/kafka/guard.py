"""Runs a command for as long as the process that asked for it lives.

    python guard.py PARENT FOLDER COMMAND ...

Lines on standard input: `stop` ends the command (SIGTERM), `kill` ends it at once. When the parent
is gone, killed or not, the command is killed and FOLDER (unless "-") is removed. It runs as a
script, on the standard library alone, so that it starts in no time.
"""

import os
import shutil
import subprocess
import sys
import threading
import time


def main() -> int:
    """Run the command to its end; its exit code."""
    parent, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    # A session of its own: Ctrl-C is for the parent, who then stops the command in order.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_obey, args=(process,), daemon=True).start()
    while process.poll() is None:
        # A forked sibling may hold the pipe open, so its end alone does not tell that we are alone.
        if _orphaned(parent):
            process.kill()
            process.wait()
        time.sleep(0.05)
    if _orphaned(parent) and folder != "-":
        shutil.rmtree(folder, ignore_errors=True)
    return process.returncode


def _obey(process: "subprocess.Popen[bytes]") -> None:
    for line in sys.stdin:
        if line == "stop\n":
            process.terminate()
        elif line == "kill\n":
            process.kill()
    process.kill()


def _orphaned(parent: int) -> bool:
    return os.getppid() != parent


if __name__ == "__main__":
    sys.exit(main())
