"""Runs moto's server until standard input ends, so that it never outlives the test that started it."""

import os
import sys
import threading

from moto.server import main


def end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


threading.Thread(target=end_with_parent, daemon=True).start()
main(sys.argv[1:])
