"""The entry point of the command `postroom`."""

import gc
import sys

from postroom import interrupts


def main() -> None:
    interrupts.install()
    try:
        try:
            # Imported here: importing the command line takes long enough to be interrupted.
            from postroom.cli import run

            code = run()
        finally:
            interrupts.exit_on_interrupt()
    except KeyboardInterrupt:
        code = interrupts.EXIT_CODE
    gc.freeze()  # at exit, Python would search everything that was imported for garbage
    sys.exit(code)


if __name__ == "__main__":
    main()
