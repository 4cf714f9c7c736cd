"""
Runs moto's server until standard input ends, so that it never outlives the test that started it. With MOTO_PORT, the
port that the tasks of state machines send their calls to, state machines can be executed.
"""

import os
import sys
import threading

from moto.server import main

if "MOTO_PORT" in os.environ:
    import moto_workflow  # noqa: F401


def end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


threading.Thread(target=end_with_parent, daemon=True).start()
main(sys.argv[1:])
